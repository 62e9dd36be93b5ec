"""How figures, recordings and notebooks come about, and are judged.

One notebook or all of them: `reproduce`; one at many points: `notebook_sweep`.
"""
