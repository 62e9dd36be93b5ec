"""Problems, policies and the time of an iteration (Liu et al. 2020, Sec. IV).

A `Problem` is the input of every planner, a `Hybrid` or a `Chain` its answer, and `iteration` the
seconds by which answers are judged.
"""

from workbench.hiertrain.costs.iteration import Iteration, iteration
from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy, Row
from workbench.hiertrain.costs.problem import (
    PAIRS,
    TIERS,
    Averaging,
    Devices,
    FloatArray,
    Pair,
    Problem,
    as_one,
    check_problem,
    links_through_edge,
    problem_of,
    problem_of_times,
)

__all__ = [
    "PAIRS",
    "TIERS",
    "Averaging",
    "Chain",
    "Devices",
    "FloatArray",
    "Hybrid",
    "Iteration",
    "Pair",
    "Policy",
    "Problem",
    "Row",
    "as_one",
    "check_problem",
    "iteration",
    "links_through_edge",
    "problem_of",
    "problem_of_times",
]
