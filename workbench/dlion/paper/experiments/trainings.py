"""Figs. 5, 7, 9, 11 to 18 and 21: trainings on the simulated testbed, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import polars as pl

from workbench.dlion.algorithms import COMPARED
from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.paper.experiments import scales
from workbench.dlion.paper.experiments.cases import (
    ABOUT,
    CURVE,
    Case,
    Learning,
    about,
    curve,
    each_seed,
    learning_at,
    run,
)
from workbench.dlion.paper.testbed import (
    CANDIDATES,
    FIRST_WEIGHTS,
    GPU_ENVIRONMENTS,
    STATED,
    paper_testbed,
)
from workbench.experiments import sweep
from workbench.experiments.seeds import seeds_from
from workbench.training import TrainingError

NS = (1.0, 10.0, 50.0, 100.0)
PERIODS = (10, 100, 1000)
SHARES = (0.0, 0.5, 0.75, 1.0)
STARTS = (0, 1, 2, 4)


def measured(*, case: Case, learning: Learning, **_: object) -> list[dict[str, Any]]:
    """A training's rows; of one that failed, what it is and why."""
    try:
        trained = run(case, learning)
    except TrainingError as error:
        return [{**about(case, learning), "reason": str(error)}]
    rows = curve(trained, learning.seconds * case.times_as_long).to_dicts()
    return [{**about(case, learning), **row} for row in rows]


def trainings(
    title: str,
    cases: Sequence[Case],
    scale: str,
    *,
    seed: int,
    dataset: str,
    seeds: int | None = None,
    mobile: bool = False,
    seconds: float | None = None,
    then: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> pl.DataFrame:
    """Train each case with so many seeds (the scale's number by default) from `seed` on.

    A row per instant of each training: what it is (`ABOUT`: null where a system is left as it is)
    and `CURVE`: ``reason`` of one that failed, ``at_s`` (virtual seconds), ``top1`` (mean over the
    workers), ``top1_sd`` (over the workers), ``loss``, ``iterations`` (of a worker, on average),
    ``mbytes`` that arrived and ``global_batch``, the largest so far.
    """
    learning = learning_at(scale, dataset, mobile=mobile)
    if seconds is not None:
        learning = learning._replace(seconds=seconds)
    chosen = seeds_from(seed, seeds, scales.SEEDS.at(scale))
    wanted = each_seed(list(dict.fromkeys(cases)), chosen)
    points = [
        {"system": case.system, "environment": case.environment, "seed": case.seed, "case": case}
        for case in wanted
    ]
    return sweep(
        title,
        measured,
        points,
        ABOUT | CURVE,
        shared={"learning": learning},
        processes=scales.PROCESSES.at(scale),
        remember=True,
        then=then,
    )


def _compared(
    title: str,
    environments: Sequence[str],
    scale: str,
    *,
    systems: Sequence[str] = COMPARED,
    **options: Any,
) -> pl.DataFrame:
    cases = [Case(system, where) for where, system in product(environments, systems)]
    return trainings(title, cases, scale, **options)


def candidates(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Homo A with every candidate's constants; with the last, either explanation, too.

    As `trainings`, with ``candidate``; what `workbench.dlion.paper.calibration` picks from.
    """
    own, shared = FIRST_WEIGHTS
    tried = [*((name, own) for name in CANDIDATES), (list(CANDIDATES)[-1], shared)]
    frames = [
        trainings(
            f"Candidate {name}",
            [_with(name, first, Case(system)) for system in COMPARED],
            scale,
            seed=seed,
            dataset=dataset,
            seeds=seeds,
        ).with_columns(candidate=pl.lit(name), first_weights=pl.lit(first))
        for name, first in tried
    ]
    return pl.concat(frames)


def _with(candidate: str, first_weights: str, case: Case) -> Case:
    """A case with a candidate's constants; as it is where these are in use, to be trained once."""
    there = paper_testbed()
    return case._replace(
        candidate=None if CANDIDATES[candidate] == there.constants else candidate,
        first_weights=None if first_weights == there.first_weights else first_weights,
    )


def fig5(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Accuracy when the global batch doubles from an epoch on (Fig. 5); as `trainings`."""
    cases = [Case(growth_epochs=start) for start in STARTS]
    return trainings("Figure 5", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


def fig7(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Accuracy by N of Max N (Fig. 7); as `trainings`."""
    cases = [Case(n=n) for n in NS]
    return trainings("Figure 7", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


def fig9(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Knowledge transfer: period, whom, and lambda (Fig. 9); as `trainings`, and ``panel``."""
    usual = Transfer()
    panels = {
        "period": [Case(period=None if one == usual.period else one) for one in PERIODS],
        "whom": [Case(techniques=("batching", "links")), Case(whom="worst"), Case()],
        "lambda": [Case(share=None if one == usual.share else one) for one in SHARES],
    }
    panels["period"].append(Case(early=500))
    frames = [
        trainings("Figure 9", cases, scale, seed=seed, dataset=dataset, seeds=seeds).with_columns(
            panel=pl.lit(panel)
        )
        for panel, cases in panels.items()
    ]
    return pl.concat(frames).with_columns(
        period=pl.when(pl.col("early").is_null()).then(pl.col("period").fill_null(usual.period)),
        share=pl.col("share").fill_null(usual.share),
    )


def fig11(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Homogeneous and heterogeneous systems (Fig. 11); as `trainings`."""
    where = ("homo_a", "hetero_sys_a", "hetero_sys_b")
    return _compared("Figure 11", where, scale, seed=seed, dataset=dataset, seeds=seeds)


def fig12(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """MobileNet in the GPU cluster (Fig. 12); as `trainings`.

    Deviation: at scale ``paper`` MobileNet learns from CIFAR-10, with the times and bytes of 224 x
    224 images.
    """
    seconds = STATED["training"]["mobilenet_s"]
    return _compared(
        "Figure 12",
        GPU_ENVIRONMENTS,
        scale,
        seed=seed,
        dataset=dataset,
        seeds=seeds,
        mobile=True,
        seconds=seconds,
    )


def fig13(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Unequal cores (Fig. 13); as `trainings`."""
    where = ("homo_a", "hetero_cpu_a", "hetero_cpu_b")
    return _compared("Figure 13", where, scale, seed=seed, dataset=dataset, seeds=seeds)


def fig14(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """DLion without dynamic batching, without its weights, and whole (Fig. 14); as `trainings`."""
    variants = (
        Case(techniques=("links", "transfer")),
        Case(weighting="equal"),
        Case(),
    )
    where = ("homo_a", "hetero_cpu_a", "hetero_cpu_b")
    cases = [one._replace(environment=name) for name, one in product(where, variants)]
    return trainings("Figure 14", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


def fig15(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Unequal links (Fig. 15); as `trainings`."""
    where = ("homo_a", "homo_b", "hetero_net_a")
    return _compared("Figure 15", where, scale, seed=seed, dataset=dataset, seeds=seeds)


def fig16(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Max 10 without DLion's other techniques (Fig. 16); as `trainings`."""
    systems = (*COMPARED[:-1], "max10")
    where = ("homo_a", "hetero_sys_a", "hetero_sys_b")
    return _compared(
        "Figure 16", where, scale, seed=seed, dataset=dataset, seeds=seeds, systems=systems
    )


def fig17(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Deviation of the workers' accuracies (Fig. 17); as `trainings`.

    Deviation: Hetero NET B is in no table; Hetero NET A stands in its place.
    """
    where = ("hetero_sys_b", "hetero_net_a", "hetero_cpu_b")
    return _compared("Figure 17", where, scale, seed=seed, dataset=dataset, seeds=seeds)


def fig18(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Resources that change (Fig. 18); as `trainings`."""
    where = ("dynamic_sys_a", "dynamic_sys_b")
    return _compared("Figure 18", where, scale, seed=seed, dataset=dataset, seeds=seeds)


def fig21(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Trainings that are long enough to converge, in Homo A (Fig. 21); as `trainings`."""
    longer = scales.CONVERGED_S.at(scale)
    return _compared(
        "Figure 21", ("homo_a",), scale, seed=seed, dataset=dataset, seeds=seeds, seconds=longer
    )
