"""Comparison of all methods of training on one cluster, and of predictions with measured runs.

`compare` compares all methods of training one model on one cluster, and says which is the fastest
and why. `workbench.comparison.learning` trains with all of them, and says which is the first to
reach a loss. `workbench.comparison.validation` compares predictions with what others measured.
"""

from workbench.comparison.compare import Comparison, compare
from workbench.comparison.methods import METHODS
from workbench.comparison.problem import Problem, UnusableError

__all__ = [
    "METHODS",
    "Comparison",
    "Problem",
    "UnusableError",
    "compare",
]
