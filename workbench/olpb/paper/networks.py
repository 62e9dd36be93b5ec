"""Table I: layers, nodes and parameters of networks, counted as the paper's library does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.olpb.costs.library import NORMALISATION, LibraryGraph, library_graph
from workbench.olpb.paper.testbed import MODELS
from workbench.olpb.paper.titles import MODEL_TITLES, TENS
from workbench.reproduction.claims import Answer, claims_of
from workbench.reproduction.figure import Figure
from workbench.reproduction.sweep import grid, sweep

SIZES: dict[str, Any] = {
    "model": pl.String,
    **dict.fromkeys(("layers", "nodes", "edges", "levels", "normalisation_nodes"), pl.Int64),
    "param_mib": pl.Float64,
}


def networks(models: Sequence[str] = tuple(MODELS.values())) -> pl.DataFrame:
    """Layers, nodes and parameters of the paper's networks, counted as its library does.

    A row per model: ``layers, nodes, edges, levels`` of operators; ``normalisation_nodes``, of one
    layer of normalisation (`nodes_of_layer`), null where there is none; and ``param_mib``,
    parameters in single precision in units of 2^20 bytes, which is what Table I calls MB.
    """
    return sweep(_sizes, grid(model=models), SIZES, title="Table I")


def _sizes(model: str) -> dict[str, object]:
    graph = library_graph(model)
    layers = graph.nodes.drop_nulls("layer").group_by("layer", maintain_order=True)
    normalisations = layers.agg("name").filter(
        pl.all_horizontal(pl.col("name").list.contains(name) for name in NORMALISATION)
    )
    first = next(iter(normalisations["layer"]), None)
    return {
        "layers": graph.layers,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "levels": graph.nodes["level"].max(),
        "normalisation_nodes": None if first is None else nodes_of_layer(graph, first),
        "param_mib": graph.parameter_mib,
    }


def nodes_of_layer(graph: LibraryGraph, layer: int) -> int:
    """Count the nodes of a layer with the one that it reads, as Fig. 3 does.

    Fig. 3 shows a convolution as v1 to v5: its input, two parameters and two operators. In Table I
    an input is the output of another layer, counted there.
    """
    own = graph.nodes.filter(layer=layer)["node"]
    read = graph.edges.filter(pl.col("target").is_in(own.implode()))["source"]
    return len({*own, *read})


COUNTED = {
    "layers": ("layers", "layers", "input and loss left out"),
    "nodes": ("nodes", "nodes", "input, parameters, operators, loss"),
    "params": ("param_mib", "parameters, MiB", "of 2^20 bytes"),
}
"""Columns of Table I: our column, its title, and what is counted."""


def draw_networks(frame: pl.DataFrame) -> alt.HConcatChart:
    """Layers, nodes and parameters of the paper's networks, and the paper's (the ring)."""
    stated = {name: claim.value for name, claim in claims_of("olpb").items()}
    order = list(MODEL_TITLES.values())
    panels: list[alt.LayerChart] = []
    for what, (column, title, _) in COUNTED.items():
        claim = pl.format("olpb.table1.{}.{}", "model", pl.lit(what))
        drawn = frame.select(
            pl.col("model").replace(MODEL_TITLES),
            ours=pl.col(column),
            paper=claim.replace_strict(stated, default=None).cast(pl.Float64),
        )
        models = alt.Y("model:N", sort=order, title=None, axis=alt.Axis(labels=not panels))
        base = alt.Chart(drawn).encode(y=models)
        ours = base.mark_point(filled=True, size=24, color=figures.PALETTE[0]).encode(
            x=alt.X(**parts.log_axis("ours", title, values=TENS))
        )
        rings = parts.paper_rings(base, x=alt.X("paper:Q", scale=alt.Scale(type="log")))
        panels.append((rings + ours).properties(height=110, width=150))
    heading = "Networks as the paper's library counts them (rings: Table I)"
    return alt.HConcatChart(hconcat=panels, title=heading)


def _size(model: str, what: str, frame: pl.DataFrame) -> Answer | None:
    """Layers, nodes or parameters of a network (Table I)."""
    rows = frame.filter(model=model)
    if rows.is_empty():
        return None
    column, _, note = COUNTED[what]
    return Answer(float(rows[column].item()), f"the zoo's network; {note}")


def _normalisation(frame: pl.DataFrame) -> Answer | None:
    """Nodes of one layer of normalisation (Sec. IV)."""
    counts = frame["normalisation_nodes"].drop_nulls()
    if counts.is_empty():
        return None
    detail = "counted as Fig. 3 counts: input, two parameters, operators that a gradient passes"
    return Answer(float(counts[0]), detail)


TABLE1 = Figure(
    id="table1",
    compute=networks,
    chart=draw_networks,
    answers={
        **{
            f"olpb.table1.{model}.{what}": partial(_size, model, what)
            for model in MODELS.values()
            for what in COUNTED
        },
        "olpb.normalisation.nodes": _normalisation,
    },
)
