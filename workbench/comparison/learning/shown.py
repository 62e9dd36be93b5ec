"""Trainings of the notebook at each scale: LeNet-5 on digits, methods of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench import datasets
from workbench.comparison.learning.ranking import TrainedMethods
from workbench.comparison.learning.stress import SHOWN, stress
from workbench.comparison.learning.train import train_methods
from workbench.comparison.methods import METHODS
from workbench.reproduction.scales import Scaled, processes_at

if TYPE_CHECKING:
    import polars as pl

    from workbench.clusters import Cluster

MODEL, DATA = "lenet5", "digits"
FEW = ("parameter server, dynacomm", "gossip")

SAMPLES = Scaled(smoke=96, default=1442, paper=1442)
TESTED = Scaled(smoke=24, default=200, paper=355)
EPOCHS = Scaled(smoke=1, default=5, paper=40)
TRAINED_EPOCHS = Scaled(smoke=1, default=3, paper=20)
"""Epochs of the slowest method; the others run for the same virtual time."""
SEEDS = Scaled(smoke=2, default=3, paper=3)
TRAINED = Scaled(smoke=FEW, default=SHOWN, paper=tuple(METHODS))
STRESSED = Scaled(
    smoke=FEW, default=tuple(name for name in SHOWN if name not in ("gosgd", "diloco")), paper=SHOWN
)
STRESS_SEEDS = Scaled(smoke=1, default=1, paper=3)


def trained_at(scale: str, cluster: Cluster, seed: int) -> TrainedMethods:
    """The notebook's trained methods."""
    methods, seeds = TRAINED.at(scale), SEEDS.at(scale)
    sizes = _sizes(scale, seed) | {"epochs": TRAINED_EPOCHS.at(scale)}
    return train_methods(MODEL, cluster, methods=methods, seeds=seeds, **sizes)


def stressed_at(scale: str, cluster: Cluster, seed: int) -> pl.DataFrame:
    """The notebook's methods under stress."""
    methods, seeds = STRESSED.at(scale), STRESS_SEEDS.at(scale)
    return stress(MODEL, cluster, methods=methods, seeds=seeds, **_sizes(scale, seed))


def _sizes(scale: str, seed: int) -> dict[str, Any]:
    return {
        "dataset": datasets.load(DATA).limit(SAMPLES.at(scale), TESTED.at(scale)),
        "batch_size": 16 if scale == "smoke" else 32,
        "epochs": EPOCHS.at(scale),
        "seed": seed,
        "processes": processes_at(scale),
    }
