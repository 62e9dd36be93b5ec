"""Comparison of all methods of training on one cluster, and of predictions with measured runs.

`compare` compares all methods of training one model on one cluster, and says which is the fastest
and why. `workbench.comparison.learning` trains with all of them, and says which is the first to
reach a loss. `validate` compares predictions with measured runs of your own;
`workbench.comparison.hivemind` does so for 26 runs on four continents.
"""

from workbench.comparison.compare import Comparison, compare
from workbench.comparison.data_parallel import Averaging, predict_epoch_s
from workbench.comparison.methods import METHODS
from workbench.comparison.problem import Problem, UnusableError
from workbench.comparison.regions import Regions, tcp_link
from workbench.comparison.validation import validate

__all__ = [
    "METHODS",
    "Averaging",
    "Comparison",
    "Problem",
    "Regions",
    "UnusableError",
    "compare",
    "predict_epoch_s",
    "tcp_link",
    "validate",
]
