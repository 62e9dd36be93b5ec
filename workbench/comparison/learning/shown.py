"""Trainings of the notebook at each scale: LeNet-5 on digits, methods of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench import datasets
from workbench.comparison import charts
from workbench.comparison.learning.ranking import TrainedMethods
from workbench.comparison.learning.train import train_methods
from workbench.comparison.methods import METHODS
from workbench.reproduction.scales import Scaled, processes_at

if TYPE_CHECKING:
    from workbench.clusters import Cluster

MODEL, DATA = "lenet5", "digits"
FEW = ("parameter server, dynacomm", "gossip")

SAMPLES = Scaled(smoke=96, default=1442, paper=1442)
TESTED = Scaled(smoke=24, default=200, paper=355)
EPOCHS = Scaled(smoke=1, default=3, paper=20)
"""Epochs of the slowest method; the others run for the same virtual time."""
SEEDS = Scaled(smoke=2, default=3, paper=3)
SHOWN = (*charts.SHOWN, "gossip", "gosgd", "edgegossip", "dlion", "diloco")
"""A method of each system."""
TRAINED = Scaled(smoke=FEW, default=SHOWN, paper=tuple(METHODS))


def trained_at(scale: str, cluster: Cluster, seed: int) -> TrainedMethods:
    """The notebook's trained methods."""
    return train_methods(
        MODEL,
        cluster,
        datasets.load(DATA).limit(SAMPLES.at(scale), TESTED.at(scale)),
        16 if scale == "smoke" else 32,
        epochs=EPOCHS.at(scale),
        seeds=SEEDS.at(scale),
        seed=seed,
        methods=TRAINED.at(scale),
        processes=processes_at(scale),
    )
