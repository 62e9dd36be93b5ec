"""EdgeGossip: gossip training on unequal platforms, each learning from what matters most.

Han et al., "Accelerating Gossip-Based Deep Learning in Heterogeneous Edge Computing Platforms",
2021.
"""

from workbench.edgegossip.accuracy_aware import ranked, selected
from workbench.edgegossip.aggregation import TECHNIQUES, Aggregation, aggregate
from workbench.edgegossip.balancer import Balance, Ratios, balance
from workbench.edgegossip.failures import POLICIES, Handover, TooManyFailedError
from workbench.edgegossip.selection import STRATEGIES, Strategy

__all__ = [
    "POLICIES",
    "STRATEGIES",
    "TECHNIQUES",
    "Aggregation",
    "Balance",
    "Handover",
    "Ratios",
    "Strategy",
    "TooManyFailedError",
    "aggregate",
    "balance",
    "ranked",
    "selected",
]
