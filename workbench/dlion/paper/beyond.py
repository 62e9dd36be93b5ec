"""Experiments beyond the paper: all systems, more workers, failures, readings of open points."""

from __future__ import annotations

from functools import partial
from itertools import product

import altair as alt
import polars as pl

from workbench.decentralised.exchanges import EXCHANGES
from workbench.dlion.algorithms import COMPARED, SYSTEMS
from workbench.dlion.paper.cases import MAX_10, SCENARIOS, SIZES, Case, trained, training_figure
from workbench.dlion.paper.charts import (
    by_workers,
    curves,
    learnt_title,
    panels,
    system_title,
    values,
)
from workbench.dlion.paper.testbed import CANDIDATES as CONSTANTS
from workbench.dlion.paper.testbed import FIRST_WEIGHTS, paper_testbed
from workbench.figures import parts
from workbench.reproduction.scales import Scaled

# --- All systems, data that differ from worker to worker, and more workers ------------------------


def draw_all_systems(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy of every system, and with samples of few classes a worker."""
    few = pl.when(pl.col("classes").is_null()).then(pl.lit("all classes"))
    drawn = frame.with_columns(data=few.otherwise(pl.lit("few classes a worker")))
    return panels("data", "system", "All systems in Hetero SYS A", drawn)


EVERY = (*SYSTEMS, *(name for name in EXCHANGES if name != "gosgd"))
"""Systems that exchange gradients, then exchanges of models."""

ALL_SYSTEMS = training_figure(
    id="all_systems",
    compute=partial(
        trained,
        "All systems",
        [Case(name, "hetero_sys_a", classes=few) for name, few in product(EVERY, (None, 2))],
    ),
    chart=draw_all_systems,
)


def _workers(*counts: int) -> list[Case]:
    both = product(("baseline", "ako", "dlion"), counts)
    return [Case(system, "hetero_sys_a", workers=count) for system, count in both]


SCALING = training_figure(
    id="scaling",
    compute=partial(trained, "More workers"),
    chart=by_workers,
    sizes={
        **SIZES,
        "cases": Scaled(
            smoke=_workers(6, 12),
            default=_workers(6, 12, 24),
            paper=_workers(6, 12, 24, 48, 64),
        ),
    },
)

# --- What a worker that crashes, one that comes back and a link that fails cost -------------------


def draw_failures(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy over time while a worker or a link fails."""
    drawn = frame.with_columns(system_title(frame), pl.col("scenario").fill_null("nothing"))
    lines = curves(drawn, "system", "scenario").properties(height=110)
    title = learnt_title("A worker crashes, a link fails; Homo A", frame, "mean")
    return parts.facets(lines, "scenario", values(parts.trained(drawn)[0], "scenario"), title)


FAILURES = training_figure(
    id="failures",
    compute=partial(
        trained,
        "Failures",
        [
            Case(system, scenario=scenario)
            for system, scenario in product(("baseline", "dlion"), (None, *SCENARIOS))
        ],
    ),
    chart=draw_failures,
)

# --- What becomes of what is not sent: each the other way round, too ------------------------------

_SLOW = ("hetero_net_a", "hetero_sys_a", "hetero_sys_b")
NOT_SENT = training_figure(
    id="not_sent",
    compute=partial(
        trained,
        "What is not sent",
        (
            *(*MAX_10, Case("max10", n=10.0, accumulate=True)),
            *(
                Case(system, environment, accumulate=added)
                for environment in ("homo_a", "homo_b", *_SLOW, "dynamic_sys_b")
                for system, added in (("ako", None), ("ako", False), ("dlion", None))
            ),
            *(Case("dlion", environment, accumulate=True) for environment in _SLOW),
        ),
    ),
    chart=lambda frame: panels(
        "environment", "system", "What becomes of what is not sent", frame
    ).resolve_scale(y="independent"),
)

# --- Constants that are not stated, and whose first weights the workers begin with ----------------


_IN_USE = next(name for name in CONSTANTS if CONSTANTS[name] == paper_testbed().constants)
OWN, SHARED = FIRST_WEIGHTS


def labelled(candidates: pl.DataFrame) -> pl.DataFrame:
    """Trainings by ``candidate`` and ``first_weights``, where a case leaves them as they are, too.

    Constants in use are no change of a case, so that it is trained once.
    """
    return candidates.with_columns(
        pl.col("candidate").fill_null(_IN_USE), pl.col("first_weights").fill_null(OWN)
    )


def draw_candidates(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy by the constants that calibration picks from, and whose first weights."""
    constants = pl.format("{}: {}", "first_weights", "candidate")
    subject = "Constants that are weighed, and first weights, Homo A"
    drawn = labelled(frame).with_columns(constants=constants)
    return panels("constants", "system", subject, drawn)


CANDIDATES = training_figure(
    id="candidates",
    compute=partial(
        trained,
        "Candidates",
        [
            case._replace(system=system)
            for case in (
                *(Case(candidate=name) for name in CONSTANTS if name != _IN_USE),
                Case(),
                Case(first_weights=SHARED),
            )
            for system in COMPARED
        ],
    ),
    chart=draw_candidates,
)
