"""Memory: Table II, every planner on every network, plans as pictures, and time for bytes."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.checks import check_whole
from workbench.claims import load_claims
from workbench.experiments import Scaled, grid, sweep
from workbench.names import check_name, choose
from workbench.olpb.costs.library import NORMALISATION, library_graph
from workbench.olpb.memory.dataflow import Dataflow, dataflow
from workbench.olpb.memory.plan import MemoryPlan
from workbench.olpb.memory.planning import PLANNERS, plan_memory, quick_order
from workbench.olpb.memory.recomputation import BudgetError
from workbench.olpb.memory.stored import stored_dataflow
from workbench.olpb.memory.trade import extra_work
from workbench.olpb.memory.trade import trade as memory_trade
from workbench.olpb.paper.experiments.counted import counted

if TYPE_CHECKING:
    from workbench.graphs.operator_graph import OperatorGraph

SIDES: Mapping[str, int] = {"inception_v3": 299, "resnet50": 299, "mask_rcnn": 768}
"""Pixels of an image's side in Table II, by network."""
PAPER_BYTES, SINGLE = 8, 4
"""Bytes a number: of results as ResNet-50's line of Table II adds up, and in single precision."""
REPEATS = Scaled(smoke=1, default=3, paper=30)
"""Times that a network runs for its seconds."""
TIMED = Scaled(smoke=("resnet50",), default=tuple(SIDES), paper=tuple(SIDES))
"""Networks of Table II whose seconds are measured."""
NETWORKS = Scaled(
    smoke=("lenet5", "cifarnet"),
    default=("cifarnet", "squeezenet", "vgg16", "googlenet", "resnet50", "inception_v3"),
    paper=(
        "cifarnet",
        "squeezenet",
        "vgg16",
        "googlenet",
        "resnet50",
        "inception_v3",
        "mobilenet_v2",
        "resnet152",
        "inception_v4",
        "mask_rcnn",
    ),
)
"""Those that all planners plan."""
TRADED = Scaled(
    smoke=("squeezenet_cifar",),
    default=("vgg16", "resnet50", "googlenet"),
    paper=("vgg16", "resnet50", "googlenet", "inception_v3"),
)
"""Those whose memory is traded for work."""
SHARES = Scaled[tuple[float, ...] | None](
    smoke=(1.0, 0.8, 0.6), default=(1.0, 0.85, 0.7, 0.55, 0.42, 0.32, 0.26, 0.21), paper=None
)
"""Budgets, over the bytes of a plan that computes nothing again; None for a whole curve."""
RUN = Scaled(smoke=("squeezenet_cifar",), default=("resnet50",), paper=TRADED.default)
"""Those that run within budgets."""
RUN_SHARES = Scaled(
    smoke=(1.0, 0.6),
    default=(1.0, 0.6, 0.4),
    paper=(1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3),
)
"""Their budgets."""
PACKING_S = 20.0
"""Most seconds for a packing; it ends sooner where it meets the bound, as it nearly always does."""

TABLE2: dict[str, Any] = {
    "model": pl.String,
    "image_px": pl.Int64,
    "counting": pl.String,
    "bytes_per_number": pl.Int64,
    "normalisation_operators": pl.Int64,
    "planner": pl.String,
    "parameter_bytes": pl.Int64,
    "without_bytes": pl.Int64,
    "with_bytes": pl.Int64,
    "bound_bytes": pl.Int64,
    "paper_without_mb": pl.Float64,
    "paper_with_mb": pl.Float64,
}


def table2(
    bytes_per_number: int = PAPER_BYTES,
    normalisation_operators: int = len(NORMALISATION),
    models: Sequence[str] = tuple(SIDES),
) -> pl.DataFrame:
    """Memory of inference without and with a plan (Table II), by arithmetic.

    Parameters
    ----------
    bytes_per_number
        Of results in the first way of counting. Parameters are in single precision always, as in
        Table I.
    normalisation_operators
        That a normalisation is in the library's granularity, each with a result of full size.
    models
        Of Table II.

    Returns
    -------
        Three rows a model, by ``counting``: ``library``, every result of the library's granularity,
        and the paper's planner; ``single``, the same at four bytes; ``workbench``, what PyTorch's
        operators make, and the workbench's planner on the optimised graph. ``without_bytes`` keeps
        all results, ``with_bytes`` is the plan, ``bound_bytes`` the most alive at once, all with
        the parameters; ``paper_without_mb`` and ``paper_with_mb`` are the paper's.

    Notes
    -----
    Results of eight bytes come to the paper's figure for ResNet-50, nearly to that for Inception-v3
    and not to that for Mask R-CNN. The library's own documentation, where the table stands with one
    more line, says that memory is the largest resident set of the program, in single precision; and
    the library's Mask R-CNN has a ResNet-101. So no counting of results is what the paper measured.
    """
    check_whole("bytes_per_number", bytes_per_number, 1)
    check_whole("normalisation_operators", normalisation_operators, 1)
    shared = {
        "bytes_per_number": bytes_per_number,
        "normalisation_operators": normalisation_operators,
    }
    return sweep("Table II", _counted, grid(model=models), TABLE2, shared=shared)


def _counted(
    model: str, bytes_per_number: int, normalisation_operators: int, **_: object
) -> list[dict[str, Any]]:
    from workbench.olpb.optimiser.optimise import optimise

    graph = _traced(model)
    library = library_graph(graph, training=False, normalisation_operators=normalisation_operators)
    numbers = dict(library.nodes.group_by("kind").agg(pl.col("numbers").sum()).iter_rows())
    rows = []
    for counting, size in (("library", bytes_per_number), ("single", SINGLE)):
        plan = plan_memory(counted(library, size), "pebble", alignment=1)
        kept = int(plan.flow.sizes.sum())
        held = {"inputs": size * numbers["input"], "weights": SINGLE * numbers["parameter"]}
        rows.append(_row(counting, size, plan, kept, **held))
    every, ours = plan_memory(graph, "none"), planned(dataflow(optimise(graph).graph), "workbench")
    held = {f"{kind}s": every.flow.held_bytes(kind) for kind in ("input", "weight")}
    rows.append(_row("workbench", SINGLE, ours, every.total_bytes, **held))
    stated = stated_table2()[model]
    about = {
        "image_px": SIDES[model],
        "normalisation_operators": normalisation_operators,
        "paper_without_mb": stated.without_mb,
        "paper_with_mb": stated.with_mb,
    }
    return [about | row for row in rows]


def _row(
    counting: str, size: int, plan: MemoryPlan, kept: int, *, inputs: int, weights: int
) -> dict[str, Any]:
    """A row, with the bytes of all results, of the input and of the weights."""
    return {
        "counting": counting,
        "bytes_per_number": size,
        "planner": plan.planner,
        "parameter_bytes": weights,
        "without_bytes": kept + inputs + weights,
        "with_bytes": plan.total_bytes + inputs + weights,
        "bound_bytes": plan.bound_bytes + inputs + weights,
    }


def _traced(model: str) -> OperatorGraph:
    """Graph of inference on an image of Table II."""
    from workbench.graphs import trace

    side = SIDES[check_name("model of Table II", model, SIDES)]
    return trace(model, (3, side, side))


class Stated(NamedTuple):
    """A line of Table II, in MB and seconds."""

    without_mb: float
    with_mb: float
    build_s: float
    execution_s: float
    without_s: float


def stated_table2() -> Mapping[str, Stated]:
    """What the paper's Table II states, by the zoo's names, from the texts of its claims."""
    told = dict(load_claims().filter(system="olpb").select("id", "metric").iter_rows())

    def numbers(model: str, claim: str) -> list[float]:
        text = told[f"olpb.table2.{model}.{claim}"]
        return [float(one) for one in re.findall(r"[\d.]+(?= (?:MB|s)\b)", text)]

    return {
        model: Stated(*numbers(model, "memory_ratio"), *numbers(model, "time_ratio"))
        for model in SIDES
    }


TABLE2_TIMES: dict[str, Any] = {
    "model": pl.String,
    "image_px": pl.Int64,
    "repeats": pl.Int64,
    "build_s": pl.Float64,
    "execution_s": pl.Float64,
    "plain_s": pl.Float64,
    "arena_bytes": pl.Int64,
    "plain_bytes": pl.Int64,
    "paper_build_s": pl.Float64,
    "paper_execution_s": pl.Float64,
    "paper_without_s": pl.Float64,
}


def table2_times(scale: str = "default", models: Sequence[str] | None = None) -> pl.DataFrame:
    """Time of inference without and with a plan (Table II), on this machine.

    A row a model: ``model, image_px, repeats``; ``build_s``, once, to trace the module, optimise
    the graph, plan its memory and make the arena; ``execution_s`` there, and ``plain_s`` of the
    module as it is, medians of repeats by turns; ``arena_bytes``, with what operators allocate
    beside it, and ``plain_bytes``, the most that PyTorch's allocator holds, both without weights;
    and the paper's, ``paper_build_s, paper_execution_s, paper_without_s``.
    """
    chosen = TIMED.at(scale) if models is None else models
    shared = {"repeats": REPEATS.at(scale)}
    return sweep(
        "Table II, times", _timed, grid(model=chosen), TABLE2_TIMES, shared=shared, timed=True
    )


def _timed(model: str, repeats: int, **_: object) -> dict[str, Any]:
    import torch

    from workbench.graphs import trace
    from workbench.olpb.memory.measured import measure_memory
    from workbench.olpb.optimiser.optimise import optimise
    from workbench.zoo import build

    trace("lenet5")  # the first tracing imports
    side = SIDES[check_name("model of Table II", model, SIDES)]
    module = build(model, "cpu")
    began_s = time.perf_counter()
    graph = optimise(trace(module, (3, side, side))).graph
    traced_s = time.perf_counter() - began_s
    found = measure_memory(graph, torch.rand(1, 3, side, side), repeats=repeats)
    stated = stated_table2()[model]
    return {
        "image_px": side,
        "build_s": traced_s + found.build_s,
        "execution_s": statistics.median(found.arena_s),
        "plain_s": statistics.median(found.plain_s),
        "arena_bytes": found.arena_bytes + found.beside_bytes,
        "plain_bytes": found.plain_bytes,
        "paper_build_s": stated.build_s,
        "paper_execution_s": stated.execution_s,
        "paper_without_s": stated.without_s,
    }


def planned(flow: Dataflow, planner: str) -> MemoryPlan:
    """A planner's plan, the same on every machine.

    The workbench's takes the best of its quick orders: its search for a better one ends by the
    clock, and seldom gains a percent.
    """
    chosen = choose("planner", planner, PLANNERS)
    order = quick_order(flow) if chosen.order == "searched" else chosen.order
    return plan_memory(flow, planner, order=order, time_limit_s=PACKING_S)


PLANNED: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    "batch_size": pl.Int64,
    "operators": pl.Int64,
    "planner": pl.String,
    "bytes": pl.Int64,
    "bound_bytes": pl.Int64,
    "over_bound": pl.Float64,
    "weight_bytes": pl.Int64,
}


def planners(
    scale: str = "default", batch_size: int = 4, models: Sequence[str] | None = None
) -> pl.DataFrame:
    """Bytes that every planner needs for networks of the zoo, over what the best order needs.

    A row per network, inference of one sample or a step of training, and planner: ``model,
    training, batch_size, operators`` of the optimised graph, ``planner, bytes``, ``bound_bytes``,
    most alive at once in the workbench's order, ``over_bound``, the ratio of both, and
    ``weight_bytes``, which no plan changes and which are not in the others.
    """
    check_whole("batch_size", batch_size, 1)
    chosen = NETWORKS.at(scale) if models is None else models
    points = grid(model=chosen, training=(False, True))
    shared = {"samples": batch_size}
    return sweep("Planners", _by_planner, points, PLANNED, shared=shared)


def _by_planner(model: str, training: bool, samples: int, **_: object) -> list[dict[str, Any]]:
    batch_size = samples if training else 1
    flow = stored_dataflow(model, batch_size, training)
    plans = {name: planned(flow, name) for name in PLANNERS}
    bound_bytes = plans["workbench"].bound_bytes
    return [
        {
            "batch_size": batch_size,
            "operators": len(flow.steps),
            "planner": name,
            "bytes": plan.total_bytes,
            "bound_bytes": bound_bytes,
            "over_bound": plan.total_bytes / bound_bytes,
            "weight_bytes": flow.held_bytes("weight"),
        }
        for name, plan in plans.items()
    ]


ARENA: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    "batch_size": pl.Int64,
    "planner": pl.String,
    "node": pl.Int64,
    "name": pl.String,
    "kind": pl.String,
    "offset": pl.Int64,
    "bytes": pl.Int64,
    "first": pl.Int64,
    "last": pl.Int64,
    "steps": pl.Int64,
    "total_bytes": pl.Int64,
    "bound_bytes": pl.Int64,
}


def arena(
    model: str = "googlenet",
    training: bool = True,
    batch_size: int = 4,
    planners: Sequence[str] = ("none", "pebble", "workbench"),
) -> pl.DataFrame:
    """Where each result lies in the block, and when, under several planners.

    A row per planner and result: ``node, name, kind, offset, bytes, first, last`` as in
    `workbench.olpb.MemoryPlan.table`; and of the plan ``steps, total_bytes, bound_bytes``. What is
    held outside of the block, weights, inputs and constants, has no node, and offsets below zero.
    """
    check_whole("batch_size", batch_size, 1)
    flow = stored_dataflow(model, batch_size, training)
    plans = [planned(flow, name) for name in planners]
    frames = [placed(plan, model, training, batch_size) for plan in plans]
    return pl.concat([pl.DataFrame(schema=ARENA), *frames])


def placed(plan: MemoryPlan, model: str, training: bool, batch_size: int) -> pl.DataFrame:
    """Rows of `arena` for one plan."""
    about = {
        "model": model,
        "training": training,
        "batch_size": batch_size,
        "planner": plan.planner,
        "steps": len(plan.order),
        "total_bytes": plan.total_bytes,
        "bound_bytes": plan.bound_bytes,
    }
    rows = pl.concat([plan.table, _outside(plan)], how="diagonal_relaxed")
    rows = rows.with_columns(**{key: pl.lit(one) for key, one in about.items()})
    return rows.select(*ARENA).cast(pl.Schema(ARENA))


def _outside(plan: MemoryPlan) -> pl.DataFrame:
    """What a plan does not place, one below the other from address 0."""
    held = [one for one in plan.flow.held if one.size_bytes]
    frame = pl.DataFrame(
        {
            "name": [one.name for one in held],
            "kind": [one.kind for one in held],
            "bytes": [one.size_bytes for one in held],
        },
        schema={"name": pl.String, "kind": pl.String, "bytes": pl.Int64},
    )
    return frame.with_columns(
        offset=-pl.col("bytes").cum_sum(), first=0, last=pl.lit(len(plan.order))
    )


TRADE: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    "batch_size": pl.Int64,
    "budget_bytes": pl.Int64,
    "total_bytes": pl.Int64,
    "bytes_percent": pl.Float64,
    "extra_percent": pl.Float64,
    "recomputed": pl.Int64,
    "reason": pl.String,
}


def trade(
    scale: str = "default",
    batch_size: int = 8,
    models: Sequence[str] | None = None,
    training: bool = True,
) -> pl.DataFrame:
    """What less memory costs: work that is done again, for budgets down to the least reachable.

    A row per network and budget: ``model, training, batch_size, budget_bytes``; the plan's
    ``total_bytes``, and ``bytes_percent`` of the plan that computes nothing again;
    ``extra_percent``, the FLOPs and bytes of what runs again over those of all, and how many
    operators that are, ``recomputed``. Where no plan was found these are null, and ``reason`` says
    why.
    """
    check_whole("batch_size", batch_size, 1)
    chosen = TRADED.at(scale) if models is None else models
    shared = {"training": training, "batch_size": batch_size, "shares": SHARES.at(scale)}
    return sweep("Trade", _traded, grid(model=chosen), TRADE, shared=shared)


def _traded(
    model: str, training: bool, batch_size: int, shares: Sequence[float] | None, **_: object
) -> pl.DataFrame:
    flow = stored_dataflow(model, batch_size, training)
    whole = planned(flow, "workbench").total_bytes
    budgets = None if shares is None else [int(share * whole) for share in shares]
    found = memory_trade(flow, budgets)
    return found.with_columns(
        bytes_percent=100 * pl.col("total_bytes") / pl.col("total_bytes").max(),
        extra_percent=100 * pl.col("extra_work"),
    )


TRADE_TIMES: dict[str, Any] = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "repeats": pl.Int64,
    "share": pl.Float64,
    "total_bytes": pl.Int64,
    "extra_percent": pl.Float64,
    "arena_s": pl.Float64,
    "plain_s": pl.Float64,
    "arena_bytes": pl.Int64,
    "plain_bytes": pl.Int64,
    "reason": pl.String,
}


def trade_times(
    scale: str = "default", batch_size: int = 8, models: Sequence[str] | None = None
) -> pl.DataFrame:
    """Seconds of a step of training in an arena within a budget, on this machine.

    A row per network and budget, a ``share`` of what the plan needs that computes nothing again:
    ``model, batch_size, repeats``; the plan's ``total_bytes`` and ``extra_percent``, as in `trade`;
    medians ``arena_s``, and ``plain_s`` of PyTorch as it is, by turns; ``arena_bytes``, with what
    operators allocate beside it, and ``plain_bytes``, the most that PyTorch's allocator holds.
    """
    check_whole("batch_size", batch_size, 1)
    chosen = RUN.at(scale) if models is None else models
    points = grid(model=chosen, share=RUN_SHARES.at(scale))
    shared = {"batch_size": batch_size, "repeats": REPEATS.at(scale)}
    return sweep(
        "Trade, times",
        _ran,
        points,
        TRADE_TIMES,
        shared=shared,
        timed=True,
        failures=BudgetError,
    )


def _ran(model: str, share: float, batch_size: int, repeats: int, **_: object) -> dict[str, Any]:
    import torch

    from workbench.olpb.memory.measured import measure_memory
    from workbench.zoo import MODELS

    graph = _training(model, batch_size)
    flow = dataflow(graph)
    budget_bytes = int(share * planned(flow, "workbench").total_bytes) if share < 1 else None
    inputs = torch.randn(batch_size, *MODELS[model].input_shape)
    classes = torch.zeros(batch_size, dtype=torch.int64)
    found = measure_memory(graph, (inputs, classes), budget_bytes=budget_bytes, repeats=repeats)
    return {
        "total_bytes": found.plan.total_bytes,
        "extra_percent": 100 * extra_work(flow, found.plan),
        "arena_s": statistics.median(found.arena_s),
        "plain_s": statistics.median(found.plain_s),
        "arena_bytes": found.arena_bytes + found.beside_bytes,
        "plain_bytes": found.plain_bytes,
    }


@lru_cache(maxsize=1)
def _training(model: str, batch_size: int) -> OperatorGraph:
    """Optimised graph of a step of training, kept for the budgets of one network."""
    from workbench.graphs import trace
    from workbench.olpb.optimiser.optimise import optimise

    return optimise(trace(model, batch_size=batch_size, training=True)).graph
