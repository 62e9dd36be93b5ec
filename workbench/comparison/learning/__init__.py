"""All ways train the same model: true learning, virtual time."""

from workbench.comparison.learning.stress import stress
from workbench.comparison.learning.text import tables
from workbench.comparison.learning.train import LEARNING_RATES, TrainedWays, train_ways

__all__ = ["LEARNING_RATES", "TrainedWays", "stress", "tables", "train_ways"]
