"""Table I and Figs. 9 to 12: networks and backward passes as the paper counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from workbench.olpb.costs.library import NORMALISATION, library_graph
from workbench.olpb.paper import scan_answers as answers
from workbench.olpb.paper import scan_charts as charts
from workbench.olpb.paper.testbed import (
    BATCH_SIZE,
    CURVES,
    DELAY_FACTOR,
    DELAY_FACTORS,
    MODELS,
    NODES,
    STATED,
    SWEPT_NODES,
    TIMES,
    times,
    variant,
)
from workbench.olpb.paper.titles import SCAN_TITLES
from workbench.reproduction.figure import Figure, Rows
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

SCANS = tuple(curve for curve in CURVES if curve != "dpb")
"""Curves of Figs. 11 and 12."""
_FIG12 = STATED["fig12"]

SIZES: dict[str, Any] = {
    "model": pl.String,
    **dict.fromkeys(("layers", "nodes", "edges", "levels", "normalisation_nodes"), pl.Int64),
    "param_mib": pl.Float64,
}


def networks(models: Sequence[str] = tuple(MODELS.values())) -> pl.DataFrame:
    """Layers, nodes and parameters of the paper's networks, counted as its library does.

    A row per model: ``layers, nodes, edges, levels`` of operators; ``normalisation_nodes``, of one
    layer of normalisation, null where there is none; and ``param_mib``, parameters in single
    precision in units of 2^20 bytes, which is what Table I calls MB.
    """
    return sweep(_sizes, grid(model=models), SIZES, title="Table I")


def _sizes(model: str) -> dict[str, object]:
    graph = library_graph(model)
    layers = graph.nodes.drop_nulls("layer").group_by("layer", maintain_order=True)
    normalisations = layers.agg("name", count=pl.len()).filter(
        pl.all_horizontal(pl.col("name").list.contains(name) for name in NORMALISATION)
    )
    return {
        "layers": graph.layers,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "levels": graph.nodes["level"].max(),
        "normalisation_nodes": next(iter(normalisations["count"]), None),
        "param_mib": graph.parameter_mib,
    }


def by_network(
    draws: int,
    batch_size: int = BATCH_SIZE,
    nodes: int = NODES,
    delay_factor: float = DELAY_FACTOR,
) -> pl.DataFrame:
    """Seconds of a backward pass by network and method, and percent of the slowest method's.

    Columns: see `workbench.olpb.paper.testbed.times`; ``percent`` is what Fig. 9 shows.
    """
    shared = {"batch_size": batch_size, "nodes": nodes, "delay_factor": delay_factor}
    frame = _swept("Fig. 9", grid(model=MODELS.values()), CURVES, draws=draws, **shared)
    slowest_s = pl.col("backward_s").max().over("model")
    return frame.with_columns(percent=100 * pl.col("backward_s") / slowest_s)


def by_nodes(
    draws: int,
    batch_size: int = BATCH_SIZE,
    delay_factor: float = DELAY_FACTOR,
    *,
    models: Sequence[str] = ("squeezenet", "inception_v3"),
    nodes: Sequence[int] = SWEPT_NODES,
) -> pl.DataFrame:
    """Seconds of a backward pass against the number of nodes; see `by_network`."""
    shared = {"batch_size": batch_size, "delay_factor": delay_factor}
    return _swept("Fig. 10", grid(model=models, nodes=nodes), CURVES, draws=draws, **shared)


def by_delay(
    draws: int,
    batch_size: int = BATCH_SIZE,
    nodes: int = NODES,
    *,
    models: Sequence[str] = ("squeezenet", "vgg16"),
    delay_factors: Sequence[float] = DELAY_FACTORS,
) -> pl.DataFrame:
    """Seconds of a backward pass against the delay factor p; see `by_network`.

    The paper's text does not say which p it sweeps (``data/testbeds/olpb.toml``, assumed).
    """
    points = grid(model=models, delay_factor=delay_factors)
    return _swept("Fig. 11", points, SCANS, draws=draws, batch_size=batch_size, nodes=nodes)


def by_batch_size(
    draws: int,
    nodes: int = _FIG12["nodes"],
    delay_factor: float = _FIG12["delay_factor"],
    *,
    model: str = _FIG12["model"],
    batch_sizes: Sequence[int] = tuple(_FIG12["batch_sizes"]),
) -> pl.DataFrame:
    """Seconds of a backward pass against the batch size, by both scans; see `by_network`."""
    points = grid(model=[model], scan=SCAN_TITLES, batch_size=batch_sizes)
    return _swept("Fig. 12", points, SCANS, draws=draws, nodes=nodes, delay_factor=delay_factor)


def _swept(
    title: str, points: Sequence[Mapping[str, object]], curves: Iterable[str], **shared: object
) -> pl.DataFrame:
    return sweep(
        _timed,
        points,
        TIMES,
        title=title,
        shared={**shared, "curves": tuple(curves)},
        with_steps=True,
    )


def _timed(
    model: str, curves: Sequence[str], draws: int, steps: object, **options: object
) -> list[dict[str, object]]:
    del steps
    return times(variant(**options), model, curves, draws)


def _at_paper(column: str, needed: Iterable[object], **setting: object) -> Rows:
    """Rows of a setting; none unless a column has all the values that the claims are about."""

    def rows(frame: pl.DataFrame) -> pl.DataFrame:
        kept = frame.filter(**setting)
        return kept if set(needed) <= set(kept[column]) else kept.clear()

    return rows


_DRAWS = {"draws": Scaled(smoke=50, default=50, paper=500)}  # of all delays, in a mean

TABLE1 = Figure(
    id="table1",
    compute=networks,
    chart=charts.draw_networks,
    answers={
        **{
            f"olpb.table1.{model}.{what}": partial(answers.size, model, what)
            for model in MODELS.values()
            for what in ("layers", "nodes", "params")
        },
        "olpb.normalisation.nodes": answers.normalisation,
    },
    causes=answers.TABLE1_CAUSES,
)

FIG9 = Figure(
    id="fig9",
    compute=by_network,
    chart=charts.draw_by_network,
    sizes=_DRAWS,
    answers={
        "olpb.fig9.max_reduction": answers.max_reduction,
        "olpb.fig9.order": answers.order,
        "olpb.fig9.level": answers.level,
    },
    causes=answers.FIG9_CAUSES,
    at_paper=_at_paper(
        "model",
        MODELS.values(),
        batch_size=BATCH_SIZE,
        nodes=NODES,
        delay_factor=DELAY_FACTOR,
    ),
)

FIG10 = Figure(
    id="fig10",
    compute=by_nodes,
    chart=charts.draw_by_nodes,
    sizes=_DRAWS,
    answers={
        "olpb.fig10.reduction": answers.fewer_nodes,
        "olpb.fig10.dpb": answers.dpb,
        "olpb.fig10.faster": answers.faster_level,
    },
    causes=answers.FIG10_CAUSES,
    at_paper=_at_paper(
        "nodes", (answers.FEW, answers.MANY), batch_size=BATCH_SIZE, delay_factor=DELAY_FACTOR
    ),
)

FIG11 = Figure(
    id="fig11",
    compute=by_delay,
    chart=charts.draw_by_delay,
    sizes=_DRAWS,
    answers={
        "olpb.fig11.olpb": partial(answers.growth, "olpb_l2"),
        "olpb.fig11.bppsa": partial(answers.growth, "bppsa"),
        "olpb.fig11.least": partial(answers.milliseconds, 0),
        "olpb.fig11.most": partial(answers.milliseconds, -1),
    },
    at_paper=_at_paper("delay_factor", DELAY_FACTORS, batch_size=BATCH_SIZE, nodes=NODES),
)

FIG12 = Figure(
    id="fig12",
    compute=by_batch_size,
    chart=charts.draw_by_batch_size,
    sizes=_DRAWS,
    answers={
        "olpb.fig12.batch": answers.batch,
        "olpb.fig12.scan": answers.either_scan,
        "olpb.fig12.faster": answers.faster_scan,
    },
    at_paper=_at_paper(
        "batch_size",
        _FIG12["batch_sizes"],
        nodes=_FIG12["nodes"],
        delay_factor=_FIG12["delay_factor"],
    ),
)
