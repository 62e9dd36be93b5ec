"""Explanations weighed: first weights, Max 10, and the constants that are fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt
import polars as pl

from workbench.dlion.algorithms import COMPARED
from workbench.dlion.paper import testbed
from workbench.dlion.paper.cases import Case, Learning
from workbench.dlion.paper.titles import SYSTEM_TITLES, panels
from workbench.dlion.paper.trainings import Groups, Trained, trained
from workbench.experiments.figure import Figure


def _changed(**changes: Any) -> list[Case]:
    return [Case(system, **changes) for system in ("baseline", "ako", "dlion")]


CASES: Mapping[str, Sequence[Case]] = {
    "own first weights": _changed(),
    "shared first weights": _changed(first_weights="shared"),
    "shared, few classes a worker": _changed(first_weights="shared", classes=2),
    "own, all wait for all": _changed(synchronous=True),
    "Max 10": [
        Case("max10"),
        Case("max10", n=10.0, accumulate=True),
        Case("max10", n=90.0),  # by the paper's sentence: at least 10 % of the largest
    ],
}


def draw_explanations(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy by what may put Baseline below the others, and Max 10 above them."""
    drawn = frame.with_columns(
        pl.when("accumulate")
        .then(pl.lit("the rest adds up"))
        .when(pl.col("n").is_not_null())
        .then(pl.lit("by the sentence"))
        .when(system="max10")
        .then(pl.lit("by the examples"))
        .otherwise(pl.col("system").replace(SYSTEM_TITLES))
        .alias("system")
    )
    subject = "What may put Baseline below systems that send less, and Max 10 above, Homo A"
    chart: alt.FacetChart = panels(drawn, "explanation", "system", subject)
    return chart.resolve_scale(y="independent")


def candidates(
    *,
    scale: str,
    learning: Learning,
    usual_seeds: int,
    seed: int = 1,
    dataset: str = "auto",
    seeds: int | None = None,
) -> pl.DataFrame:
    """Homo A with every candidate's constants; with the last, either explanation, too.

    As `trained`; what `workbench.dlion.paper.calibration` picks from.
    """
    own, shared = testbed.FIRST_WEIGHTS
    names = list(testbed.CANDIDATES)
    tried = [*((name, own) for name in names), (names[-1], shared)]
    frames = [
        trained(
            f"Candidate {name}",
            [_case(name, first, Case(system)) for system in COMPARED],
            scale=scale,
            learning=learning,
            usual_seeds=usual_seeds,
            seed=seed,
            dataset=dataset,
            seeds=seeds,
        ).with_columns(candidate=pl.lit(name), first_weights=pl.lit(first))
        for name, first in tried
    ]
    return pl.concat(frames)


def _case(candidate: str, first_weights: str, case: Case) -> Case:
    """A case with a candidate's constants; as it is where these are in use, to be trained once."""
    there = testbed.paper_testbed()
    return case._replace(
        candidate=None if testbed.CANDIDATES[candidate] == there.constants else candidate,
        first_weights=None if first_weights == there.first_weights else first_weights,
    )


def draw_candidates(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy by the constants that calibration picks from, and whose first weights."""
    drawn = frame.with_columns(
        pl.col("system").replace(SYSTEM_TITLES),
        constants=pl.format("{}: {}", "first_weights", "candidate"),
    )
    subject = "Constants that are weighed, and first weights, Homo A"
    return panels(drawn, "constants", "system", subject)


def in_use(candidates: pl.DataFrame) -> pl.DataFrame:
    """Those with the constants in use, by whose first weights."""
    constants = testbed.paper_testbed().constants
    name = next(name for name, one in testbed.CANDIDATES.items() if one == constants)
    return candidates.filter(candidate=name)


def draw_first_weights(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy by whose first weights."""
    titles = {"own": "each worker's own", "shared": "the same for all"}
    drawn = frame.with_columns(
        pl.col("system").replace(SYSTEM_TITLES), pl.col("first_weights").replace(titles)
    )
    return panels(drawn, "first_weights", "system", "First weights, Homo A")


EXPLANATIONS = Trained(
    id="explanations",
    compute=partial(trained, "Explanations", Groups("explanation", CASES)),
    chart=draw_explanations,
)

CANDIDATES = Trained(
    id="candidates",
    compute=candidates,
    chart=draw_candidates,
)

FIRST_WEIGHTS = Figure(id="first_weights", of=CANDIDATES, compute=in_use, chart=draw_first_weights)
