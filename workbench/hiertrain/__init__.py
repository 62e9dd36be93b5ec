"""HierTrain: one model trained by device, edge and cloud together.

Liu et al., "HierTrain: Fast Hierarchical Edge AI Learning with Hybrid Parallelism in
Mobile-Edge-Cloud Computing", 2020.

A problem is made by `problem_of` from a profile and the speed of each tier, or by
`problem_of_times` from measured layer times; a planner of `PLANNERS` makes a policy for it, and
`iteration` says what that takes.
"""

from __future__ import annotations

from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs import (
    TIERS,
    Chain,
    Hybrid,
    Iteration,
    Policy,
    Problem,
    iteration,
    links_through_edge,
    problem_of,
    problem_of_times,
)
from workbench.hiertrain.training import Setup, Trained, TrainingError, train

__all__ = [
    "PLANNERS",
    "TIERS",
    "Chain",
    "Hybrid",
    "Iteration",
    "Policy",
    "Problem",
    "Setup",
    "Trained",
    "TrainingError",
    "iteration",
    "links_through_edge",
    "problem_of",
    "problem_of_times",
    "train",
]
