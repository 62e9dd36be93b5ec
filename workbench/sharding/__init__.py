"""Data-parallel training in which nodes share out states, gradients and parameters.

Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020; in
stage 0 gradients are all-reduced in buckets: Li et al., "PyTorch Distributed", 2020.
"""

from __future__ import annotations

from workbench.sharding.costs import Problem, ends_s, iteration_s, needed_bytes, sent_bytes
from workbench.sharding.planners import PLANNERS
from workbench.sharding.schedules import Plan
from workbench.sharding.training import Setup, train

__all__ = [
    "PLANNERS",
    "Plan",
    "Problem",
    "Setup",
    "ends_s",
    "iteration_s",
    "needed_bytes",
    "sent_bytes",
    "train",
]
