"""Table I and Figs. 9 to 12: sizes of networks, and backward passes by scan as the paper counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from workbench.experiments import Scaled, grid, sweep
from workbench.names import choose
from workbench.olpb.costs.library import library_graph
from workbench.olpb.paper.testbed import (
    BATCH_SIZE,
    DELAY_FACTOR,
    DELAY_FACTORS,
    METHODS,
    MODELS,
    NODES,
    STATED,
    SWEPT_NODES,
    TIMES,
    times,
    variant,
)

DRAWS = Scaled(smoke=10, default=50, paper=500)
"""Of all delays, in a mean."""

SCANS = ("olpb_l2", "olpb_l3", "bppsa")
"""Methods that Figs. 11 and 12 show."""

TABLE1 = {
    "model": pl.String,
    "layers": pl.Int64,
    "nodes": pl.Int64,
    "edges": pl.Int64,
    "levels": pl.Int64,
    "param_mib": pl.Float64,
}


def table1(models: Sequence[str] = tuple(MODELS.values())) -> pl.DataFrame:
    """Layers, nodes and parameters of the paper's networks, counted as its library does.

    A row per model: ``layers, nodes, edges, levels`` of operators, and ``param_mib``, parameters
    in single precision in units of 2^20 bytes, which is what Table I calls MB.
    """
    return sweep("Table I", _sizes, grid(model=models), TABLE1)


def _sizes(model: str, **_: object) -> dict[str, object]:
    found = library_graph(model)
    return {
        "layers": found.layers,
        "nodes": len(found.nodes),
        "edges": len(found.edges),
        "levels": found.nodes["level"].max(),
        "param_mib": found.parameter_mib,
    }


FIG9 = {**TIMES, "percent": pl.Float64}


def fig9(
    scale: str = "default",
    batch_size: int = BATCH_SIZE,
    nodes: int = NODES,
    delay_factor: float = DELAY_FACTOR,
    seed: int = 0,
) -> pl.DataFrame:
    """Seconds of a backward pass by network and method, and percent of the slowest method's.

    Columns: see `workbench.olpb.paper.testbed.times`; ``percent`` is what Fig. 9 shows.
    """
    shared = {"batch_size": batch_size, "nodes": nodes, "delay_factor": delay_factor}
    points = grid(model=MODELS.values())
    return of_slowest(_swept("Fig. 9", points, shared, tuple(METHODS), (scale, seed)))


def of_slowest(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``percent``: of the slowest method's seconds on each network."""
    slowest_s = pl.col("backward_s").max().over("model")
    return frame.with_columns(percent=100 * pl.col("backward_s") / slowest_s)


def fig10(
    scale: str = "default",
    batch_size: int = BATCH_SIZE,
    delay_factor: float = DELAY_FACTOR,
    seed: int = 0,
    *,
    models: Sequence[str] = ("squeezenet", "inception_v3"),
    nodes: Sequence[int] = SWEPT_NODES,
) -> pl.DataFrame:
    """Seconds of a backward pass against the number of nodes; see `fig9`."""
    shared = {"batch_size": batch_size, "delay_factor": delay_factor}
    points = grid(model=models, nodes=nodes)
    return _swept("Fig. 10", points, shared, tuple(METHODS), (scale, seed))


def fig11(
    scale: str = "default",
    batch_size: int = BATCH_SIZE,
    nodes: int = NODES,
    seed: int = 0,
    *,
    models: Sequence[str] = ("squeezenet", "vgg16"),
    delay_factors: Sequence[float] = DELAY_FACTORS,
) -> pl.DataFrame:
    """Seconds of a backward pass against the delay factor p; see `fig9`.

    Notes
    -----
    The paper's text does not say which p it sweeps (``data/testbeds/olpb.toml``, assumed).
    """
    shared = {"batch_size": batch_size, "nodes": nodes}
    points = grid(model=models, delay_factor=delay_factors)
    return _swept("Fig. 11", points, shared, SCANS, (scale, seed))


def fig12(
    scale: str = "default",
    nodes: int = STATED["fig12"]["nodes"],
    delay_factor: float = STATED["fig12"]["delay_factor"],
    seed: int = 0,
    *,
    model: str = STATED["fig12"]["model"],
    batch_sizes: Sequence[int] = tuple(STATED["fig12"]["batch_sizes"]),
) -> pl.DataFrame:
    """Seconds of a backward pass against the batch size, by both scans; see `fig9`."""
    choose("model", model, {name: name for name in MODELS.values()})
    shared = {"nodes": nodes, "delay_factor": delay_factor}
    points = grid(model=[model], scan=("hillis_steele", "blelloch"), batch_size=batch_sizes)
    return _swept("Fig. 12", points, shared, SCANS, (scale, seed))


def _swept(
    title: str,
    points: Sequence[Mapping[str, object]],
    given: Mapping[str, object],
    methods: Sequence[str],
    scale_and_seed: tuple[str, int],
) -> pl.DataFrame:
    scale, seed = scale_and_seed
    shared = {**given, "methods": methods, "draws": DRAWS.at(scale), "seed": seed}
    return sweep(title, _timed, points, TIMES, shared=shared)


def _timed(
    model: str,
    methods: Sequence[str],
    draws: int,
    seed: int,
    steps: object = None,
    **options: object,
) -> list[dict[str, object]]:
    del steps
    return times(variant(**options), model, methods, draws, seed)
