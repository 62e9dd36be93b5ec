"""Memory traded for work: what a budget costs by counting, and in seconds of this machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.memory.budgets import extra_work
from workbench.memory.budgets import trade as memory_trade
from workbench.memory.dataflow import dataflow
from workbench.memory.planning import plan_memory
from workbench.memory.recomputation import BudgetError
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.olpb.paper.titles import MB, MODEL_TITLES, phase_title
from workbench.profiles.graph import OperatorGraph
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

TRADED: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    **dict.fromkeys(("batch_size", "budget_bytes", "total_bytes"), pl.Int64),
    **dict.fromkeys(("bytes_percent", "extra_percent"), pl.Float64),
    "recomputed": pl.Int64,
    "reason": pl.String,
}


def trade(
    models: Sequence[str],
    shares: Sequence[float] | None,
    batch_size: int = 8,
    training: bool = True,
) -> pl.DataFrame:
    """Work that is done again for less memory, for budgets down to the least reachable.

    A row per network and budget: ``model, training, batch_size, budget_bytes``; the plan's
    ``total_bytes``, and ``bytes_percent`` of the plan that computes nothing again;
    ``extra_percent``, the FLOPs and bytes of what runs again over those of all, and how many
    operators that are, ``recomputed``. Where no plan was found these are null, and ``reason`` says
    why.
    """
    shared = {"training": training, "batch_size": batch_size, "shares": shares}
    return sweep(_traded, grid(model=models), TRADED, title="Trade", shared=shared)


def _traded(
    model: str, training: bool, batch_size: int, shares: Sequence[float] | None
) -> pl.DataFrame:
    flow = stored_dataflow(model, batch_size, training)
    whole = plan_memory(flow).total_bytes
    budgets = None if shares is None else [int(share * whole) for share in shares]
    return memory_trade(flow, budgets).with_columns(
        bytes_percent=100 * pl.col("total_bytes") / pl.col("total_bytes").max(),
        extra_percent=100 * pl.col("extra_work"),
    )


def draw_trade(frame: pl.DataFrame) -> alt.Chart:
    """Work that is done again against the bytes of the plan, a line per network."""
    fitting, names = _fitting(frame)
    drawn = fitting.with_columns(mb=pl.col("total_bytes") / MB)
    missing = len(frame) - len(drawn)
    left_out = [f"no plan found for {missing} budgets"] if missing else []
    phase = phase_title(frame.row(0, named=True))
    title = ["Less memory for more computing", phase, *left_out]
    of_whole = "bytes of results, % of a plan that repeats nothing"
    return (
        alt.Chart(drawn, height=190, title=title)
        .mark_line(point=True)
        .encode(
            x=alt.X("bytes_percent:Q", title=of_whole, scale=alt.Scale(zero=False)),
            y=alt.Y("extra_percent:Q", title="work done again, %"),
            tooltip=["model:N", "mb:Q", "extra_percent:Q", "recomputed:Q"],
            **figures.series("model", names),
        )
    )


def _fitting(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Rows of budgets that a plan was found for, with titles, and the titles of their networks."""
    rows = frame.drop_nulls("total_bytes")
    names = parts.present(rows["model"], MODEL_TITLES)
    return parts.titled(rows, model=MODEL_TITLES), names


RAN: dict[str, Any] = {
    "model": pl.String,
    **dict.fromkeys(("batch_size", "repeats"), pl.Int64),
    "share": pl.Float64,
    "total_bytes": pl.Int64,
    **dict.fromkeys(("extra_percent", "predicted_s", "arena_s", "plain_s"), pl.Float64),
    **dict.fromkeys(("arena_bytes", "plain_bytes"), pl.Int64),
    "reason": pl.String,
}


def trade_times(
    models: Sequence[str],
    shares: Sequence[float],
    repeats: int,
    batch_size: int = 8,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Seconds of a step of training in an arena within a budget, on this machine.

    A row per network and budget, a ``share`` of what the plan needs that computes nothing again:
    ``model, batch_size, repeats``; the plan's ``total_bytes`` and ``extra_percent``, as in `trade`;
    ``predicted_s`` by this machine's roofline; medians ``arena_s``, and ``plain_s`` of PyTorch as
    it is, by turns; ``arena_bytes``, with what operators allocate beside it, and ``plain_bytes``,
    the most that PyTorch's allocator holds.
    """
    points = grid(model=models, share=shares)
    shared = {"batch_size": batch_size, "repeats": repeats}
    return sweep(
        _ran,
        points,
        RAN,
        title="Trade, times",
        shared=shared,
        folder=folder,
        failures=BudgetError,
    )


def _ran(model: str, share: float, batch_size: int, repeats: int) -> dict[str, Any]:
    import torch

    from workbench.memory.measured import measure_memory
    from workbench.memory.roofline import this_machine
    from workbench.zoo import MODELS

    graph = _training(model, batch_size)
    flow = dataflow(graph)
    budget_bytes = int(share * plan_memory(flow).total_bytes) if share < 1 else None
    inputs = torch.randn(batch_size, *MODELS[model].input_shape)
    classes = torch.zeros(batch_size, dtype=torch.int64)
    measured = measure_memory(graph, (inputs, classes), budget=budget_bytes, repeats=repeats)
    return {
        "total_bytes": measured.plan.total_bytes,
        "extra_percent": 100 * extra_work(flow, measured.plan),
        "predicted_s": this_machine().seconds(measured.plan.flow),
        "arena_s": statistics.median(measured.arena_s),
        "plain_s": statistics.median(measured.plain_s),
        "arena_bytes": measured.arena_bytes + measured.beside_bytes,
        "plain_bytes": measured.plain_bytes,
    }


@lru_cache(maxsize=1)
def _training(model: str, batch_size: int) -> OperatorGraph:
    """Optimised graph of a step of training, kept for the budgets of one network."""
    from workbench.memory import trace
    from workbench.memory.optimiser import optimise

    return optimise(trace(model, batch_size=batch_size, training=True)).graph


SECONDS = {"predicted_s": "predicted for what runs again", "arena_s": "measured"}


def draw_trade_times(frame: pl.DataFrame) -> alt.VConcatChart:
    """Seconds of a step in the arena over PyTorch's, against bytes, a line per network.

    Below, how much longer less memory takes than recomputing nothing: predicted by the roofline of
    the kernels that run again, and measured.
    """
    fitting, names = _fitting(frame)
    drawn = fitting.with_columns(
        ratio=pl.col("arena_s") / pl.col("plain_s"),
        mb=pl.col("arena_bytes") / MB,
        plain_mb=pl.col("plain_bytes") / MB,
    )
    row = frame.row(0, named=True)
    title = [
        "Time of a step of training in the arena",
        f"batch {row['batch_size']}, median of {row['repeats']}, timed",
    ]
    held = alt.X("mb:Q", title="MB held", scale=alt.Scale(zero=True))
    ratios = (
        alt.Chart(drawn, height=150)
        .mark_line(point=True)
        .encode(
            x=held,
            y=alt.Y("ratio:Q", title="seconds over PyTorch's", scale=alt.Scale(zero=True)),
            tooltip=["model:N", "mb:Q", "plain_mb:Q", "arena_s:Q", "extra_percent:Q"],
            **figures.series("model", names),
        )
    )
    ratio = pl.col("value") / pl.col("value").sort_by("share").last()
    longer = drawn.unpivot(list(SECONDS), index=["model", "mb", "share"], variable_name="seconds")
    longer = longer.with_columns(
        pl.col("seconds").replace_strict(SECONDS),
        percent=100 * (ratio - 1).over("model", "seconds"),
    )
    points = (
        alt.Chart(longer, height=110)
        .mark_point(filled=True, size=50)
        .encode(
            x=held,
            y=alt.Y("percent:Q", title="longer than with all kept, %"),
            color=parts.colour("model", names, legend=None),
            shape=parts.shape("seconds", list(SECONDS.values())),
        )
    )
    return alt.vconcat(ratios, points, title=title).resolve_scale(shape="independent")


_NETWORKS = ("vgg16", "resnet50", "googlenet")
TRADE = Figure(
    id="trade",
    compute=trade,
    chart=draw_trade,
    sizes={
        "models": Scaled(
            smoke=("squeezenet_cifar",), default=_NETWORKS, paper=(*_NETWORKS, "inception_v3")
        ),
        # Budgets, over the bytes of a plan that computes nothing again; None for a whole curve.
        "shares": Scaled[tuple[float, ...] | None](
            smoke=(1.0, 0.8, 0.6),
            default=(1.0, 0.85, 0.7, 0.55, 0.42, 0.32, 0.26, 0.21),
            paper=None,
        ),
    },
)

TRADE_TIMES = Figure(
    id="trade_times",
    compute=trade_times,
    chart=draw_trade_times,
    sizes={
        "models": Scaled(
            smoke=("squeezenet_cifar",), default=("squeezenet_cifar",), paper=_NETWORKS
        ),
        "shares": Scaled(
            smoke=(1.0, 0.6),
            default=(1.0, 0.6, 0.4),
            paper=(1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3),
        ),
        "repeats": Scaled(smoke=1, default=3, paper=5),
    },
    recorded=True,
    live=True,
    timings=True,
)
