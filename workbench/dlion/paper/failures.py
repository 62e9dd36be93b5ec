"""What a worker that crashes, one that comes back and a link that fails cost: ours."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from workbench.dlion.paper.cases import Case, Learning, run
from workbench.dlion.paper.titles import SYSTEM_TITLES, curves, learnt_title, values
from workbench.dlion.paper.trainings import ABOUT, CURVE, Trained, about, curve
from workbench.figures import parts
from workbench.reproduction.scales import processes_at, seeds_from
from workbench.reproduction.sweep import sweep
from workbench.runtime import Crash, Fault, LinkDown, Restart
from workbench.training import TrainingError


def _faults(seconds: float) -> dict[str, tuple[Fault, ...]]:
    crash = Crash(1, seconds / 4)
    return {
        "nothing": (),
        "worker 1 crashes": (crash,),
        "and comes back": (crash, Restart(1, seconds / 2)),
        "a link fails": (LinkDown(0, 1, seconds / 4, seconds / 2),),
    }


def _with_faults(*, case: Case, learning: Learning, scenario: str) -> list[Any]:
    patience_s = min(20 * learning.learner.stands_for, learning.seconds / 5)
    faults = _faults(learning.seconds)[scenario]
    try:
        trained = run(case, learning, faults=faults, patience_s=patience_s)
    except TrainingError as error:
        return [{**about(case, learning), "reason": str(error)}]
    there = trained.iterations.filter(pl.col("node") != 1)
    rows = curve(trained, learning.seconds, learning.instants).to_dicts()
    others = len(there) / (len(trained.weights) - 1)
    return [{**about(case, learning), "others": others, **row} for row in rows]


def failures(
    *,
    scale: str,
    learning: Learning,
    usual_seeds: int,
    seed: int = 1,
    dataset: str = "auto",
    seeds: int | None = None,
    processes: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """As `trained`, and ``scenario`` and ``others``: iterations of each other worker at the end."""
    chosen = seeds_from(seed, seeds, usual_seeds)
    points = [
        {"scenario": name, "system": system, "seed": one, "case": Case(system, seed=one)}
        for one, system, name in product(chosen, ("baseline", "dlion"), _faults(learning.seconds))
    ]
    return sweep(
        _with_faults,
        points,
        {"scenario": pl.String, "others": pl.Float64} | ABOUT | CURVE,
        title="Failures",
        shared={"learning": learning.of(scale, dataset)},
        labels=("system", "seed"),
        processes=processes_at(scale, processes),
        folder=folder,
    )


def draw_failures(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy over time while a worker or a link fails."""
    drawn = frame.with_columns(pl.col("system").replace(SYSTEM_TITLES))
    panels = values(parts.trained(frame)[0], "scenario")
    lines = curves(drawn, "system", "scenario").properties(height=110)
    title = learnt_title("A worker crashes, a link fails; Homo A", frame, "mean")
    return parts.facets(lines, "scenario", panels, title)


FAILURES = Trained(id="failures", compute=failures, chart=draw_failures)
