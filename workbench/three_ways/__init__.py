"""One training three ways: predicted by its cost model, simulated, and measured with processes.

>>> from workbench import three_ways
>>> case = three_ways.cases()["dynacomm, alexnet_small, 20 Mbit/s, 10 ms, layer_by_layer, padded"]
>>> f"{case.predicted_s:.4f} {case.run('simulated').iteration_s:.4f} {case.predicted_by}"
'0.5246 0.5246 cost model'

``case.run("measured")`` runs the same programs as processes of this machine.
"""

from workbench.three_ways.case import Case, Outcome
from workbench.three_ways.catalogue import cases

__all__ = ["Case", "Outcome", "cases"]
