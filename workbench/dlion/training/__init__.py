"""Trains a model on workers in micro-clouds: true learning, virtual time.

>>> from workbench import datasets
>>> from workbench.dlion import Setup, train
>>> digits = datasets.load("digits").limit(train=120, test=20)
>>> trained = train(Setup("cipher_small", digits, "homo_b", iterations=2), "baseline")
>>> trained.iterations["samples"].to_list() == [32] * 12
True
"""

from workbench.dlion.training.run import Built, Trained, build, train
from workbench.dlion.training.setup import Setup
from workbench.training import TrainingError

__all__ = ["Built", "Setup", "Trained", "TrainingError", "build", "train"]
