"""All systems, with data that differ from worker to worker, and with more workers: both ours."""

from __future__ import annotations

from functools import partial
from itertools import product

import altair as alt
import polars as pl

from workbench import figures
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.paper.accuracy import final
from workbench.dlion.paper.cases import Case
from workbench.dlion.paper.titles import SYSTEM_TITLES, final_percents, learnt_title, values
from workbench.dlion.paper.trainings import SIZES, Trained, trained
from workbench.figures import parts
from workbench.reproduction.scales import Scaled


def draw_all_systems(frame: pl.DataFrame) -> alt.Chart:
    """Final accuracy of every system, and with samples of few classes a worker."""
    labelled = frame.with_columns(
        pl.col("system").replace(SYSTEM_TITLES),
        data=pl.when(pl.col("classes").is_null())
        .then(pl.lit("all classes"))
        .otherwise(pl.lit("few classes a worker")),
    )
    names, kinds = values(labelled, "system"), values(labelled, "data")
    drawn = final_percents(labelled, "system", "data")
    base = alt.Chart(drawn).encode(
        y=alt.Y("system:N", sort=names, title=None), yOffset=alt.YOffset("data:N", sort=kinds)
    )
    title = learnt_title("All systems in Hetero SYS A, and samples of few classes", frame)
    chart: alt.Chart = (
        base.mark_bar()
        .encode(x=alt.X("mean:Q", title="top-1, %"), color=parts.colour("data", kinds))
        .properties(height=26 * len(names), title=title)
    )
    return chart


def draw_scaling(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy, and iterations done, by the number of workers."""
    last = final(frame).with_columns(pl.col("system").replace(SYSTEM_TITLES))
    drawn = (
        last.group_by("system", "workers", maintain_order=True)
        .agg(pl.col("iterations").mean(), percent=100 * pl.col("top1").mean())
        .with_columns(iterations=pl.col("iterations") * frame["stands_for"][0])
        .unpivot(on=["percent", "iterations"], index=["system", "workers"])
        .with_columns(
            pl.col("variable").replace(
                {"percent": "top-1, %", "iterations": "the paper's iterations of a worker"}
            )
        )
    )
    sizes = drawn["workers"].unique().sort().to_list()
    base = alt.Chart(drawn)
    marked = base.mark_line(point=True) if len(sizes) > 2 else base.mark_point()
    lines = marked.encode(
        x=alt.X(
            "workers:Q",
            scale=alt.Scale(type="log", base=2, nice=False, padding=12),
            axis=alt.Axis(values=sizes),
        ),
        y=alt.Y("value:Q", title=None),
        **figures.series("system", values(last, "system")),
    ).properties(height=130)
    title = learnt_title("More workers, kinds as in Hetero SYS A", frame)
    panels = parts.facets(lines, "variable", values(drawn, "variable"), title)
    return panels.resolve_scale(y="independent")


def _sizes(*workers: int) -> tuple[Case, ...]:
    return tuple(
        Case(system, "hetero_sys_a", workers=count)
        for system, count in product(("baseline", "ako", "dlion"), workers)
    )


_DATA = tuple(Case(name, "hetero_sys_a", classes=few) for name, few in product(SYSTEMS, (None, 2)))

ALL_SYSTEMS = Trained(
    id="all_systems", compute=partial(trained, "All systems", _DATA), chart=draw_all_systems
)

SCALING = Trained(
    id="scaling",
    compute=partial(trained, "More workers"),
    chart=draw_scaling,
    sizes={
        **SIZES,
        "cases": Scaled(
            smoke=_sizes(6, 12), default=_sizes(6, 12, 24), paper=_sizes(6, 12, 24, 48, 64)
        ),
    },
)
