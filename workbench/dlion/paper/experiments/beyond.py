"""What the paper's readers would ask next: which technique is worth what, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import polars as pl

from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.algorithms.weighted_update import WEIGHTINGS
from workbench.dlion.paper.experiments import scales
from workbench.dlion.paper.experiments.cases import (
    ABOUT,
    CURVE,
    Case,
    Learning,
    about,
    curve,
    learning_at,
    run,
)
from workbench.dlion.paper.experiments.trainings import trainings
from workbench.experiments import sweep
from workbench.experiments.seeds import seeds_from
from workbench.runtime import Crash, Fault, LinkDown, Restart
from workbench.training import TrainingError

TECHNIQUES = ("batching", "links", "transfer")
COMBINATIONS = tuple(
    chosen for count in range(len(TECHNIQUES) + 1) for chosen in combinations(TECHNIQUES, count)
)


def techniques(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """All eight combinations of the three techniques; as `trainings`."""
    where = scales.ENVIRONMENTS.at(scale)
    cases = [
        Case(environment=name, techniques=None if chosen == TECHNIQUES else chosen)
        for name, chosen in product(where, COMBINATIONS)
    ]
    return trainings("Techniques", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


def weightings(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Eq. 7 beside equal weights and weights that sum to one; as `trainings`."""
    cases = [
        Case(environment="hetero_cpu_a", weighting=None if name == "dynamic" else name)
        for name in WEIGHTINGS
    ]
    return trainings("Weightings", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


def all_systems(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Every system, with the samples of all classes and of few classes each; as `trainings`."""
    cases = [
        Case(system, "hetero_sys_a", classes=classes)
        for system, classes in product(SYSTEMS, (None, 2))
    ]
    return trainings("All systems", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


def scaling(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """From six workers on; as `trainings`."""
    sizes, largest = [6], scales.LARGEST.at(scale)
    while sizes[-1] < largest:
        sizes.append(min(2 * sizes[-1], largest))
    cases = [
        Case(system, "hetero_sys_a", workers=workers)
        for system, workers in product(("baseline", "ako", "dlion"), sizes)
    ]
    return trainings("More workers", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


def _with(**changes: Any) -> list[Case]:
    return [Case(system, **changes) for system in ("baseline", "ako", "dlion")]


EXPLANATIONS: Mapping[str, Sequence[Case]] = {
    "own first weights": _with(),
    "shared first weights": _with(first_weights="shared"),
    "shared, few classes a worker": _with(first_weights="shared", classes=2),
    "own, all wait for all": _with(synchronous=True),
    "Max 10": [
        Case("max10"),
        Case("max10", n=10.0, accumulate=True),
        Case("max10", n=90.0),  # by the paper's sentence: at least 10 % of the largest
    ],
}


def explanations(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """What may put Baseline below systems that send less, and Max 10 above all (Fig. 16).

    As `trainings`, and ``explanation``.
    """
    frames = [
        trainings(
            "Explanations",
            cases,
            scale,
            seed=seed,
            dataset=dataset,
            seeds=seeds,
        ).with_columns(explanation=pl.lit(name))
        for name, cases in EXPLANATIONS.items()
    ]
    return pl.concat(frames)


def _faults(seconds: float) -> dict[str, tuple[Fault, ...]]:
    crash = Crash(1, seconds / 4)
    return {
        "nothing": (),
        "worker 1 crashes": (crash,),
        "and comes back": (crash, Restart(1, seconds / 2)),
        "a link fails": (LinkDown(0, 1, seconds / 4, seconds / 2),),
    }


def _with_faults(*, case: Case, learning: Learning, scenario: str, **_: object) -> list[Any]:
    patience_s = min(20 * learning.learner.stands_for, learning.seconds / 5)
    faults = _faults(learning.seconds)[scenario]
    try:
        trained = run(case, learning, faults=faults, patience_s=patience_s)
    except TrainingError as error:
        return [{**about(case, learning), "reason": str(error)}]
    there = trained.iterations.filter(pl.col("node") != 1)
    rows = curve(trained, learning.seconds).to_dicts()
    others = len(there) / (len(trained.weights) - 1)
    return [{**about(case, learning), "others": others, **row} for row in rows]


def failures(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """A worker that crashes, one that returns, a link that fails.

    As `trainings`, and ``scenario`` and ``others``: iterations of each other worker at the end.
    """
    learning = learning_at(scale, dataset)
    chosen = seeds_from(seed, seeds, scales.SEEDS.at(scale))
    points = [
        {"scenario": name, "system": system, "seed": one, "case": Case(system, seed=one)}
        for one, system, name in product(chosen, ("baseline", "dlion"), _faults(learning.seconds))
    ]
    return sweep(
        "Failures",
        _with_faults,
        points,
        {"scenario": pl.String, "others": pl.Float64} | ABOUT | CURVE,
        shared={"learning": learning},
        processes=scales.PROCESSES.at(scale),
    )
