"""Memory: Table II, every planner on every network, plans as pictures, and time for bytes."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.checks import check_whole
from workbench.claims import load_claims
from workbench.experiments import Scaled, grid, sweep
from workbench.names import check_name, choose
from workbench.olpb.costs.library import NORMALISATION, library_graph
from workbench.olpb.memory.dataflow import Dataflow, dataflow
from workbench.olpb.memory.lifetimes import lifetimes
from workbench.olpb.memory.orders import best_first, depth_first, traced
from workbench.olpb.memory.plan import MemoryPlan
from workbench.olpb.memory.planning import PLANNERS, plan_memory
from workbench.olpb.memory.recomputation import BudgetError, cost
from workbench.olpb.memory.stored import stored_dataflow
from workbench.olpb.paper.experiments.counted import counted

if TYPE_CHECKING:
    from workbench.graphs.operator_graph import OperatorGraph

SIDES: Mapping[str, int] = {"inception_v3": 299, "resnet50": 299, "mask_rcnn": 768}
"""Pixels of an image's side in Table II, by network."""
PAPER_BYTES, SINGLE = 8, 4
"""Bytes a number: of results as ResNet-50's line of Table II adds up, and in single precision."""
REPEATS = Scaled(smoke=1, default=5, paper=30)
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
"""Those whose memory is traded for time."""
SHARES = Scaled(
    smoke=(0.9, 0.7),
    default=(0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3),
    paper=tuple(share / 20 for share in range(19, 3, -1)),
)
"""Budgets, over the bytes of a plan that computes nothing again."""
PACKING_S = 20.0
"""Most seconds for a packing; it ends sooner where it meets the bound, as it nearly always does."""

TABLE2 = {
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


TABLE2_TIMES = {
    "model": pl.String,
    "image_px": pl.Int64,
    "repeats": pl.Int64,
    "build_s": pl.Float64,
    "execution_s": pl.Float64,
    "plain_s": pl.Float64,
    "paper_build_s": pl.Float64,
    "paper_execution_s": pl.Float64,
    "paper_without_s": pl.Float64,
}


def table2_times(scale: str = "default", models: Sequence[str] | None = None) -> pl.DataFrame:
    """Time of inference without and with a plan (Table II), on this machine.

    A row a model: ``model, image_px, repeats``; ``build_s``, once, to trace the module, optimise
    the graph, plan its memory and make the arena; ``execution_s`` there, and ``plain_s`` of the
    module as it is, medians of repeats by turns; and the paper's, ``paper_build_s,
    paper_execution_s, paper_without_s``.
    """
    chosen = TIMED.at(scale) if models is None else models
    shared = {"repeats": REPEATS.at(scale)}
    return sweep(
        "Table II, times", _timed, grid(model=chosen), TABLE2_TIMES, shared=shared, timed=True
    )


def _timed(model: str, repeats: int, **_: object) -> dict[str, Any]:
    import torch

    from workbench.graphs import trace
    from workbench.olpb.memory.arena import Arena
    from workbench.olpb.optimiser.optimise import optimise
    from workbench.zoo import build

    trace("lenet5")  # the first tracing imports
    side = SIDES[check_name("model of Table II", model, SIDES)]
    module, image = build(model, "cpu").eval(), torch.rand(1, 3, side, side)
    began_s = time.perf_counter()
    arena = Arena(plan_memory(optimise(trace(module, (3, side, side))).graph))
    build_s = time.perf_counter() - began_s
    execution_s, plain_s = [], []
    with torch.no_grad():
        for _repeat in range(repeats + 1):
            execution_s.append(_seconds(lambda: arena.run(image)))
            plain_s.append(_seconds(lambda: module(image)))
    stated = stated_table2()[model]
    return {
        "image_px": side,
        "build_s": build_s,
        "execution_s": statistics.median(execution_s[1:]),  # the first call warms
        "plain_s": statistics.median(plain_s[1:]),
        "paper_build_s": stated.build_s,
        "paper_execution_s": stated.execution_s,
        "paper_without_s": stated.without_s,
    }


def _seconds(call: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


def planned(flow: Dataflow, planner: str) -> MemoryPlan:
    """A planner's plan, the same on every machine.

    The workbench's takes the best of its quick orders: its search for a better one ends by the
    clock, and seldom gains a percent.
    """
    chosen = choose("planner", planner, PLANNERS)
    order: str | Sequence[int] = chosen.order
    if order == "searched":
        quick = [traced(flow), depth_first(flow), best_first(flow)]
        order = min(quick, key=lambda one: lifetimes(flow, one).bound_bytes)
    return plan_memory(flow, planner, order=order, time_limit_s=PACKING_S)


PLANNED = {
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


ARENA = {
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
    about = {"model": model, "training": training, "batch_size": batch_size}
    frames = [pl.DataFrame(schema=ARENA)]
    for name in planners:
        plan = planned(flow, name)
        of_plan = about | {
            "planner": name,
            "steps": len(plan.order),
            "total_bytes": plan.total_bytes,
            "bound_bytes": plan.bound_bytes,
        }
        rows = pl.concat([plan.table, _outside(plan)], how="diagonal_relaxed")
        frames.append(rows.with_columns(**{key: pl.lit(one) for key, one in of_plan.items()}))
    return pl.concat([one.select(*ARENA).cast(ARENA) for one in frames])  # type: ignore[arg-type]


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


TRADE = {
    "model": pl.String,
    "training": pl.Boolean,
    "batch_size": pl.Int64,
    "share": pl.Float64,
    "budget_bytes": pl.Int64,
    "bytes": pl.Int64,
    "steps_again": pl.Int64,
    "extra_percent": pl.Float64,
    "reason": pl.String,
}


def trade(
    scale: str = "default",
    batch_size: int = 8,
    models: Sequence[str] | None = None,
    training: bool = True,
) -> pl.DataFrame:
    """What less memory costs: work that is done again, for budgets below a plan without that.

    A row per network and budget: ``model, training, batch_size``; ``share``, the budget over the
    bytes of the plan that computes nothing again, ``budget_bytes`` and the plan's ``bytes``;
    ``steps_again``, and ``extra_percent``, their FLOPs and bytes over those of all steps. Where no
    plan was found these are null, and ``reason`` says so.
    """
    check_whole("batch_size", batch_size, 1)
    chosen = TRADED.at(scale) if models is None else models
    points = grid(model=chosen, share=(1.0, *SHARES.at(scale)))
    shared = {"training": training, "batch_size": batch_size}
    return sweep("Trade", _traded, points, TRADE, shared=shared, failures=BudgetError)


def _traded(
    model: str, share: float, training: bool, batch_size: int, **_: object
) -> dict[str, Any]:
    flow = stored_dataflow(model, batch_size, training)
    whole = planned(flow, "workbench")
    budget_bytes = int(share * whole.total_bytes)
    plan = whole
    if budget_bytes < whole.total_bytes:
        plan = plan_memory(flow, budget_bytes=budget_bytes, order=whole.order)
    again = cost(plan.flow)[[plan.order[at] for at in plan.recomputed]].sum()
    return {
        "budget_bytes": budget_bytes,
        "bytes": plan.total_bytes,
        "steps_again": len(plan.recomputed),
        "extra_percent": 100 * again / cost(flow).sum(),
    }
