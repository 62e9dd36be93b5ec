"""A system with two figures that can be recorded and take no time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.reproduction import toys
from workbench import datasets
from workbench.dynacomm.explorer import Setting
from workbench.reproduction import data, provenance, recordings
from workbench.reproduction.data import data_set
from workbench.reproduction.figure import Figure
from workbench.reproduction.record import record
from workbench.reproduction.recordings import Recording
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import sweep

METHODS: dict[str, Callable[[int], float]] = {
    "alone": lambda seed: 1.0 * seed,
    "exact": lambda seed: 2.0 * seed,
    "assign": lambda seed: 3.0 * seed,
    "lower bound": lambda seed: 4.0 * seed,
}
trained = list[int]()
"""Seeds of the trainings so far."""


def mean(
    usual: int,
    scale: str,
    seed: int = 1,
    dataset: str = "auto",
    *,
    seeds: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """The mean of a data set, by seed."""
    points = [{"seed": number} for number in range(seed, seed + (seeds or usual))]
    shared = {"source": data_set(scale, "cifar10", dataset)}
    schema = {"seed": pl.Int64, "dataset": pl.String, "mean": pl.Float64}
    return sweep(mean_of, points, schema, title="Mean", shared=shared, folder=folder)


def mean_of(*, source: str, seed: int) -> dict[str, object]:
    trained.append(seed)
    loaded = load(source)
    return {"dataset": loaded.name, "mean": float(loaded.x_train.mean())}


@data.loaded_once
def load(source: str) -> datasets.Dataset:
    return datasets.load(source)


def fleet(seed: int = 1, *, processes: int | None = 1, folder: Path | None = None) -> pl.DataFrame:
    """Seconds of four methods."""
    return sweep(
        assigned,
        [{"method": method} for method in METHODS],
        {"method": pl.String, "slowest_s": pl.Float64},
        title="Fleet",
        shared={"seed": seed},
        processes=processes,
        folder=folder,
    )


def assigned(*, method: str, seed: int) -> dict[str, float]:
    return {"slowest_s": METHODS[method](seed)}


MEAN = Figure(
    id="mean", compute=mean, sizes={"usual": Scaled(2, 2, 2)}, recorded=True, data=("cifar10",)
)
FLEET = Figure(id="fleet", compute=fleet, recorded=True)


def figures() -> tuple[Figure, ...]:
    return MEAN, FLEET, Figure(id="quick", compute=fleet)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the workbench know the system, at a commit."""
    toys.install(monkeypatch, "toy", figures, Setting)
    at_revision(monkeypatch, "a" * 40, dirty=False)


def at_revision(
    monkeypatch: pytest.MonkeyPatch, revision: str | None, *, dirty: bool | None
) -> None:
    monkeypatch.setattr(provenance, "revision", lambda *_: (revision, dirty))


def loaded(name: str, folder: Path) -> Recording:
    recording = recordings.load("toy", name, folder)
    assert recording is not None
    return recording


def record_fleet(folder: Path, scale: str = "smoke", *, force: bool = False) -> Recording:
    record("toy", "fleet", scale=scale, processes=1, force=force, folder=folder)
    return loaded("fleet", folder)


def record_mean(folder: Path, seeds: int | None = None, *, force: bool = False) -> Recording:
    record("toy", "mean", scale="smoke", seeds=seeds, force=force, folder=folder)
    return loaded("mean", folder)


def interrupted(_: int) -> float:
    raise KeyboardInterrupt
