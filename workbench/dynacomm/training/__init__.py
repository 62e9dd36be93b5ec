"""Training a model on parameter servers, on a simulated network: what, and how it ended."""

from workbench.dynacomm.training.run import Built, build, train
from workbench.dynacomm.training.setup import Setup
from workbench.training import Trained, TrainingError

__all__ = ["Built", "Setup", "Trained", "TrainingError", "build", "train"]
