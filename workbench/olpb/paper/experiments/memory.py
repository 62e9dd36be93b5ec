"""Memory: every planner on every network, plans as pictures, and time for bytes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.checks import check_whole
from workbench.experiments import Scaled, grid, sweep
from workbench.memory.budgets import extra_work
from workbench.memory.budgets import trade as memory_trade
from workbench.memory.dataflow import Dataflow, dataflow
from workbench.memory.orders import quick_order
from workbench.memory.plan import MemoryPlan
from workbench.memory.planning import PLANNERS, plan_memory
from workbench.memory.recomputation import BudgetError
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.names import choose

if TYPE_CHECKING:
    from workbench.graphs.operator_graph import OperatorGraph

REPEATS = Scaled(smoke=1, default=3, paper=30)
"""Times that a network runs for its seconds."""
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


def planned(flow: Dataflow, planner: str) -> MemoryPlan:
    """A planner's plan; the workbench's, of the best of its quick orders.

    Its search for a better one takes seconds for a large network and seldom gains a percent.
    """
    chosen = choose("planner", planner, PLANNERS)
    order = quick_order(flow) if chosen.order == "searched" else chosen.order
    return plan_memory(flow, planner, order=order)


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
    "predicted_s": pl.Float64,
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
    ``predicted_s`` by this machine's roofline; medians ``arena_s``, and ``plain_s`` of PyTorch as
    it is, by turns; ``arena_bytes``, with what
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

    from workbench.memory.measured import measure_memory
    from workbench.memory.roofline import this_machine
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
        "predicted_s": this_machine().seconds(found.plan.flow),
        "arena_s": statistics.median(found.arena_s),
        "plain_s": statistics.median(found.plain_s),
        "arena_bytes": found.arena_bytes + found.beside_bytes,
        "plain_bytes": found.plain_bytes,
    }


@lru_cache(maxsize=1)
def _training(model: str, batch_size: int) -> OperatorGraph:
    """Optimised graph of a step of training, kept for the budgets of one network."""
    from workbench.graphs import trace
    from workbench.graphs.optimiser import optimise

    return optimise(trace(model, batch_size=batch_size, training=True)).graph
