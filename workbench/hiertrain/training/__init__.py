"""Training a model on device, edge and cloud, on a simulated network: what, and how it ended."""

from workbench.hiertrain.training.run import Built, Trained, build, train
from workbench.hiertrain.training.setup import Setup
from workbench.training import TrainingError

__all__ = ["Built", "Setup", "Trained", "TrainingError", "build", "train"]
