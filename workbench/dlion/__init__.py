"""DLion: training without a server across unequal, changing micro-clouds.

Hong and Chandra, "DLion: Decentralized Distributed Deep Learning in Micro-Clouds", 2021.

`train` trains what a `Setup` says, by one of `SYSTEMS` or a `System` of one's own, in one of
`ENVIRONMENTS` or on a cluster.
"""

from __future__ import annotations

from workbench.dlion.algorithms import SYSTEMS, WEIGHTINGS
from workbench.dlion.algorithms.global_batch import Growth
from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.algorithms.local_batch import local_batch_sizes, relative_power
from workbench.dlion.algorithms.max_n import max_n
from workbench.dlion.algorithms.synchronisation import (
    Bounded,
    Progress,
    asynchronous,
    delivered,
    synchronous,
)
from workbench.dlion.algorithms.system import Batching, System
from workbench.dlion.costs.environments import ENVIRONMENTS, Environment
from workbench.dlion.gradient import Gradient, Links
from workbench.dlion.part import Part
from workbench.dlion.training import Setup, Trained, TrainingError, train

__all__ = [
    "ENVIRONMENTS",
    "SYSTEMS",
    "WEIGHTINGS",
    "Batching",
    "Bounded",
    "Environment",
    "Gradient",
    "Growth",
    "Links",
    "Part",
    "Progress",
    "Setup",
    "System",
    "Trained",
    "TrainingError",
    "Transfer",
    "asynchronous",
    "delivered",
    "local_batch_sizes",
    "max_n",
    "relative_power",
    "synchronous",
    "train",
]
