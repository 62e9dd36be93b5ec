"""All ways train the same model: true learning, virtual time."""

from workbench.comparison.learning.ranking import TrainedWays
from workbench.comparison.learning.stress import stress
from workbench.comparison.learning.task import data_for
from workbench.comparison.learning.text import tables
from workbench.comparison.learning.train import LEARNING_RATES, train_ways

__all__ = ["LEARNING_RATES", "TrainedWays", "data_for", "stress", "tables", "train_ways"]
