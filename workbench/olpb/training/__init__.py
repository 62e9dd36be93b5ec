"""Training by OLPB and what it is compared with, on simulated nodes: what, and how it ended."""

from workbench.olpb.training.run import Built, Trained, build, train
from workbench.olpb.training.setup import Setup
from workbench.training import TrainingError

__all__ = ["Built", "Setup", "Trained", "TrainingError", "build", "train"]
