"""EdgeGossip: gossip training on unequal platforms, each learning from what matters most.

Han et al., "Accelerating Gossip-Based Deep Learning in Heterogeneous Edge Computing Platforms",
2021.

`train` trains a model on unequal platforms; a `Platform` is how fast one is, what slows it (a
`Predictor`: `fit` one to `profiling_runs` of your machine) and what co-runs.
"""

from workbench.edgegossip.accuracy_aware import ranked, selected
from workbench.edgegossip.aggregation import TECHNIQUES, Aggregation, aggregate
from workbench.edgegossip.balancer import Balance, Ratios, balance
from workbench.edgegossip.failures import POLICIES, Handover, TooManyFailedError
from workbench.edgegossip.fitting import fit
from workbench.edgegossip.monitor import Monitor
from workbench.edgegossip.platforms import Platform
from workbench.edgegossip.predictor import Predictor
from workbench.edgegossip.profiling_runs import profiling_runs
from workbench.edgegossip.selection import STRATEGIES, Strategy
from workbench.edgegossip.store import Store
from workbench.edgegossip.train import train
from workbench.edgegossip.trainer import EdgeGossip

__all__ = [
    "POLICIES",
    "STRATEGIES",
    "TECHNIQUES",
    "Aggregation",
    "Balance",
    "EdgeGossip",
    "Handover",
    "Monitor",
    "Platform",
    "Predictor",
    "Ratios",
    "Store",
    "Strategy",
    "TooManyFailedError",
    "aggregate",
    "balance",
    "fit",
    "profiling_runs",
    "ranked",
    "selected",
    "train",
]
