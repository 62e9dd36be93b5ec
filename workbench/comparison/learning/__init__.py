"""Training of the same model by all methods, with true learning and virtual time."""

from workbench.comparison.learning.ranking import TrainedMethods
from workbench.comparison.learning.stress import stress
from workbench.comparison.learning.task import data_for
from workbench.comparison.learning.text import tables
from workbench.comparison.learning.train import LEARNING_RATES, train_methods

__all__ = ["LEARNING_RATES", "TrainedMethods", "data_for", "stress", "tables", "train_methods"]
