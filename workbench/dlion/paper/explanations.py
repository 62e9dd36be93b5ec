"""Explanations weighed: first weights, what is not sent, and the constants that are fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, wraps
from itertools import product
from typing import Any

import altair as alt
import polars as pl

from workbench.dlion.algorithms import COMPARED
from workbench.dlion.paper import testbed
from workbench.dlion.paper.cases import MAX_10, Case
from workbench.dlion.paper.titles import panels
from workbench.dlion.paper.trainings import Group, Trained, trained
from workbench.reproduction.figure import Figure


def _changed(**changes: Any) -> list[Case]:
    return [Case(system, **changes) for system in ("baseline", "ako", "dlion")]


CASES: Mapping[str, Sequence[Case]] = {
    "own first weights": _changed(),
    "shared first weights": _changed(first_weights="shared"),
    "shared, few classes a worker": _changed(first_weights="shared", classes=2),
    "own, all wait for all": _changed(synchronous=True),
}
_SLOW = ("hetero_net_a", "hetero_sys_a", "hetero_sys_b")
_NOT_SENT = (
    *(*MAX_10, Case("max10", n=10.0, accumulate=True)),
    *(
        Case(system, environment, accumulate=added)
        for environment in ("homo_a", "homo_b", *_SLOW, "dynamic_sys_b")
        for system, added in (("ako", None), ("ako", False), ("dlion", None))
    ),
    *(Case("dlion", environment, accumulate=True) for environment in _SLOW),
)


def draw_explanations(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy by what may put Baseline below the others."""
    subject = "What may put Baseline below systems that send less, Homo A"
    return panels("explanation", "system", subject, frame)


def draw_not_sent(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy where what is not sent is forgotten, and where it adds up."""
    chart: alt.FacetChart = panels(
        "environment", "system", "What becomes of what is not sent", frame
    )
    return chart.resolve_scale(y="independent")


_OWN, _SHARED = testbed.FIRST_WEIGHTS
_NAMES = tuple(testbed.CANDIDATES)
_USED = "0.1, 1600 ms"


@wraps(trained, assigned=())  # with the same parameters
def candidates(title: str, systems: Sequence[str], **sizes: Any) -> pl.DataFrame:
    """Homo A with every candidate's constants; with those in use, either explanation, too.

    As `trained`, by system; what `workbench.dlion.paper.calibration` picks from. Constants in use
    are no change of a case, so that it is trained once.
    """
    used = testbed.paper_testbed()
    groups = [
        Group(
            [
                Case(
                    system,
                    candidate=None if testbed.CANDIDATES[name] == used.constants else name,
                    first_weights=None if first == used.first_weights else first,
                )
                for system in systems
            ],
            {"candidate": name, "first_weights": first},
        )
        for name, first in (*product(_NAMES, [_OWN]), (_USED, _SHARED))
    ]
    return trained(title, groups, **sizes)


def draw_candidates(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy by the constants that calibration picks from, and whose first weights."""
    constants = pl.format("{}: {}", "first_weights", "candidate")
    subject = "Constants that are weighed, and first weights, Homo A"
    return panels("constants", "system", subject, frame.with_columns(constants=constants))


def in_use(candidates: pl.DataFrame) -> pl.DataFrame:
    """Those with the constants in use, by whose first weights."""
    constants = testbed.paper_testbed().constants
    name = next(name for name, one in testbed.CANDIDATES.items() if one == constants)
    return candidates.filter(candidate=name)


def draw_first_weights(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy by whose first weights."""
    titles = {"own": "each worker's own", "shared": "the same for all"}
    drawn = frame.with_columns(pl.col("first_weights").replace(titles))
    return panels("first_weights", "system", "First weights, Homo A", drawn)


EXPLANATIONS = Trained(
    id="explanations",
    compute=partial(
        trained,
        "Explanations",
        tuple(Group(cases, {"explanation": name}) for name, cases in CASES.items()),
    ),
    chart=draw_explanations,
)

NOT_SENT = Trained(
    id="not_sent", compute=partial(trained, "What is not sent", _NOT_SENT), chart=draw_not_sent
)

CANDIDATES = Trained(
    id="candidates",
    compute=partial(candidates, "Candidates", COMPARED),
    chart=draw_candidates,
)

FIRST_WEIGHTS = Figure(
    id="first_weights", of=(CANDIDATES,), compute=in_use, chart=draw_first_weights
)
