"""Table I and Figs. 9 to 12 as the paper counts, and for what the scan pays by arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from workbench.claims import claims_of, verdicts
from workbench.experiments import Scaled, grid, sweep
from workbench.names import choose
from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.arithmetic import as_arithmetic_costs, network_elements
from workbench.olpb.costs.backward import FREE, MOVES, as_paper_counts, plan, subtasks
from workbench.olpb.costs.library import MIB, library_graph
from workbench.olpb.costs.recurrent import COUNTINGS, Chain, chain_work
from workbench.olpb.costs.timing import Work, scan_timing
from workbench.olpb.paper import calibration
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
    Constants,
    paper_testbed,
    stated_fig11_ms,
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


PAYS = {
    "network": pl.String,
    "length": pl.Int64,
    "hidden": pl.Int64,
    "method": pl.String,
    "batch_size": pl.Int64,
    "nodes": pl.Int64,
    "counting": pl.String,
    "elements": pl.Int64,
    "work_ratio": pl.Float64,
    "sent_mib": pl.Float64,
    "bare_speedup": pl.Float64,
    "speedup": pl.Float64,
}

NETWORKS = Scaled(
    smoke=("lenet5",),
    default=("lenet5", "cifarnet", "squeezenet", "vgg16", "inception_v3"),
    paper=("lenet5", "cifarnet", "squeezenet", "vgg16", "inception_v3"),
)
CHAINS = Scaled(
    smoke=(1000,), default=(1000, 3000, 10_000, 30_000), paper=(1000, 3000, 10_000, 30_000)
)
"""Steps of recurrent networks."""
CHAIN_NODES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
HIDDEN = 20
"""Units of the recurrent networks, as in BPPSA's own experiment (Wang et al. 2020)."""


def pays(
    scale: str = "default",
    batch_size: int = BATCH_SIZE,
    hidden: int = HIDDEN,
    delay_factor: float = DELAY_FACTOR,
    nodes: Sequence[int] = SWEPT_NODES,
) -> pl.DataFrame:
    """How much faster than one node a backward pass by scan is, by both countings.

    For networks, with groups of two levels of operators (``olpb_l2``) and with layers (``bppsa``),
    and for chains of a vanilla recurrent network, each with scans by Hillis and Steele. One node
    goes back operator by operator; its messages and those of equal nodes take constant delays.

    A row per network (``length`` and ``hidden`` are a chain's), method, number of nodes and
    counting: ``work_ratio``, FLOPs of the scan over
    those of one node; ``sent_mib`` between nodes (by arithmetic; the paper counts none);
    ``bare_speedup``, where arithmetic alone takes time; ``speedup`` with the testbed's delay and
    dispatch, messages of any size being as fast.
    """
    points = [
        *grid(network=NETWORKS.at(scale), method=("olpb_l2", "bppsa"), nodes=nodes),
        *grid(network=["rnn"], length=CHAINS.at(scale), nodes=CHAIN_NODES),
    ]
    shared = {"batch_size": batch_size, "hidden": hidden, "delay_factor": delay_factor}
    return sweep("What the scan pays", _paying, points, PAYS, shared=shared)


def first_paying(frame: pl.DataFrame) -> pl.DataFrame:
    """Fewest nodes that a frame of `pays` finds faster than one, null where none is.

    A row per network, length, method and counting: ``bare_nodes`` where arithmetic alone takes
    time, and ``bare_most``, the largest speed-up; ``nodes`` and ``most`` with the testbed's delay
    and dispatch.
    """
    found = [
        one
        for prefix in ("bare_", "")
        for speedup in [pl.col(f"{prefix}speedup")]
        for one in (
            pl.col("nodes").filter(speedup > 1).min().alias(f"{prefix}nodes"),
            speedup.max().alias(f"{prefix}most"),
        )
    ]
    by = ("network", "length", "method", "counting")
    return frame.group_by(*by, maintain_order=True).agg(*found)


def _paying(
    network: str, nodes: int, batch_size: int, hidden: int, delay_factor: float, **about: Any
) -> Iterator[dict[str, object]]:
    real = variant(nodes=nodes, delay_factor=delay_factor).pool()
    bare = replace(real, dispatch_s=0.0, delay_s=0.0)
    for counting in COUNTINGS:
        if network == "rnn":
            chain = Chain(about["length"], hidden, batch_size)
            elements, alone_flops = chain.steps + 1, chain.steps * chain.vector_flops
            planned = plan(elements, nodes, "hillis_steele")
            work = chain_work(planned, chain, counting)
        else:
            priced = _network_work(network, about["method"], batch_size, nodes, counting)
            planned, work, elements, alone_flops = priced
        found = [scan_timing(planned, work, pool) for pool in (bare, real)]
        alone_s = alone_flops / real.nodes[0].flops_per_s
        yield {
            "hidden": hidden if network == "rnn" else None,
            "method": about.get("method", "bppsa"),
            "counting": counting,
            "elements": elements,
            "work_ratio": found[0].flops / alone_flops,
            "sent_mib": found[0].bytes_sent / MIB,
            "bare_speedup": alone_s / found[0].seconds,
            "speedup": (alone_s + elements * real.dispatch_s) / found[1].seconds,
        }


def _network_work(
    network: str, method: str, batch_size: int, nodes: int, counting: str
) -> tuple[Schedule, Work, int, float]:
    """Schedule and its costs, how many elements it has, and FLOPs of one node alone."""
    level = METHODS[method]
    if counting == "paper":
        groups = subtasks(
            network, batch_size, "matrix_layer" if method == "bppsa" else "operator", level
        )
        planned = plan(len(groups), nodes, "hillis_steele")
        alone = sum(one.backward_flops for one in groups)
        work = as_paper_counts(planned, groups, paper_testbed().moves)
        return planned, work, len(groups), alone
    found = network_elements(
        network, batch_size, "layer" if method == "bppsa" else "operator", level
    )
    planned = plan(len(found), nodes, "hillis_steele")
    alone = network_elements(network, batch_size).sequential_flops
    return planned, as_arithmetic_costs(planned, found), len(found), alone


EXPLAINED = {
    "explanation": pl.String,
    "claim": pl.String,
    "role": pl.String,
    "paper": pl.String,
    "ours": pl.Float64,
    "verdict": pl.String,
}


def explanations() -> pl.DataFrame:
    """How each explanation of the open constants fares, claim by claim.

    A row per explanation and claim of Figs. 9 to 12: ``role`` (``fit`` or ``predicted``),
    ``paper``, ``ours`` (null for an order) and ``verdict``.
    """
    points = grid(explanation=calibration.EXPLANATIONS)
    return sweep("Explanations", _explained, points, EXPLAINED)


READINGS = {
    "moves": pl.String,
    "fitted_met": pl.Int64,
    "fitted": pl.Int64,
    "predicted_met": pl.Int64,
    "predicted": pl.Int64,
    "first_ms": pl.Float64,
    "last_ms": pl.Float64,
    "paper_first_ms": pl.Float64,
    "paper_last_ms": pl.Float64,
}


def readings(explained: pl.DataFrame) -> pl.DataFrame:
    """What Figs. 9 to 12 come to by each reading of what it costs to combine Jacobians.

    A row per reading in ``moves`` (`workbench.olpb.costs.backward.MOVES`), that of the figures
    first: of the claims in a frame of `explanations` how many are met, of those ``fitted`` on and
    of those ``predicted``; and milliseconds of OLPB (l = 2) on SqueezeNet at the ends of Fig. 11,
    with the paper's.
    """
    met = pl.col("verdict").is_in(calibration.MET)
    ends = min(DELAY_FACTORS), max(DELAY_FACTORS)
    rows: list[tuple[Any, ...]] = []
    for moves in (FREE, *(one for one in MOVES if one != FREE)):
        counts: list[int] = []
        for role in ("fit", "predicted"):
            claims = explained.filter(explanation=moves, role=role)
            counts += [len(claims.filter(met)), len(claims)]
        one, constants = calibration.EXPLANATIONS[moves], Constants.load(moves)
        testbeds = [one.testbed(constants, delay_factor=p) for p in ends]
        took_ms = [1e3 * at.backward_s(MODELS["SqueezeNet"], "olpb_l2") for at in testbeds]
        rows.append((moves, *counts, *took_ms, *stated_fig11_ms()))
    return pl.DataFrame(rows, READINGS, orient="row")


def _explained(explanation: str, **_: object) -> Iterator[dict[str, object]]:
    one = calibration.EXPLANATIONS[explanation]
    answers = calibration.found(one, Constants.load(explanation))
    for claim, verdict in verdicts("olpb", answers).items():
        ours = answers[claim].ours
        yield {
            "claim": claim,
            "role": "fit" if claim in calibration.FITTED else "predicted",
            "paper": claims_of("olpb")[claim].value,
            "ours": None if isinstance(ours, bool) else ours,
            "verdict": verdict,
        }
