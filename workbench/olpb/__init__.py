"""OLPB: back-propagation by a parallel scan over groups of operators, on many small nodes.

Zhao, Vandenhove, Xu, Tao, Wang, Liu and Crowcroft, *Parallel and Memory-Efficient Distributed Edge
Learning in B5G IoT Networks*.

`scan_gradients` computes gradients by a parallel scan of Jacobians, exactly; `train` trains a
`Setup` on a simulated `Pool` of nodes, by one of `METHODS`. The paper's other half, graphs of fewer
operators whose results share one block of memory, is `workbench.memory`.
"""

from __future__ import annotations

from workbench.olpb.algorithms import METHODS, SCANS
from workbench.olpb.algorithms.gradients import ScanGradients, scan_gradients
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.training import Setup, Trained, TrainingError, train

__all__ = [
    "METHODS",
    "SCANS",
    "Node",
    "Pool",
    "ScanGradients",
    "Setup",
    "Trained",
    "TrainingError",
    "scan_gradients",
    "train",
]
