"""Which way should I train this? And are predictions right: a comparison with measured runs.

`compare` compares every method of training on one model and one cluster, and says which is the
fastest and why. `workbench.comparison.learning` trains in all of them,
and says which is the first to reach a loss. `validate` holds predictions against measured runs of
your own, as `workbench.comparison.hivemind` does for 26 runs on four continents.
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
