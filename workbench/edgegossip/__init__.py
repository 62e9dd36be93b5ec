"""EdgeGossip: gossip training on unequal platforms, each learning from what matters most.

Han et al., "Accelerating Gossip-Based Deep Learning in Heterogeneous Edge Computing Platforms",
2021.

`train` trains what a `Setup` says; a `Platform` is how fast one is, what slows it (a `Predictor`:
`fit` one to `profiling_runs` of your machine) and what co-runs (a `Load`: one `Contention` after
another).
"""

from __future__ import annotations

from workbench.edgegossip.aggregation import TECHNIQUES, Aggregation, aggregate
from workbench.edgegossip.algorithms import STRATEGIES, Strategy
from workbench.edgegossip.algorithms.accuracy_aware import ranked, selected
from workbench.edgegossip.algorithms.balancer import Ratios, balance
from workbench.edgegossip.algorithms.failures import POLICIES, Handover, TooManyFailedError
from workbench.edgegossip.costs.platforms import Load, Platform
from workbench.edgegossip.prediction.monitor import Monitor, read_reports
from workbench.edgegossip.prediction.predictor import Contention, Predictor, fit
from workbench.edgegossip.prediction.profiling_runs import profiling_runs
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.edgegossip.training import Setup, Trained, TrainingError, train

__all__ = [
    "POLICIES",
    "STRATEGIES",
    "TECHNIQUES",
    "Aggregation",
    "Contention",
    "EdgeGossip",
    "Handover",
    "Load",
    "Monitor",
    "Platform",
    "Predictor",
    "Ratios",
    "Setup",
    "Strategy",
    "TooManyFailedError",
    "Trained",
    "TrainingError",
    "aggregate",
    "balance",
    "fit",
    "profiling_runs",
    "ranked",
    "read_reports",
    "selected",
    "train",
]
