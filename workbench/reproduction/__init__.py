"""How the papers' figures are computed, recorded, shown in notebooks and judged.

A `figure.Figure` is one value: what is computed, drawn and answered. Its rows are made point by
point (`sweep.sweep`), or were recorded once (`record.record`) and are read back
(`recordings.load`). A notebook shows it (`notebook.Results`); `reproduce.reproduce` runs notebooks
and keeps their results, `notebook_sweep.sweep` runs one at many points. `scorecard` judges what
figures answer by the papers' `claims`.
"""
