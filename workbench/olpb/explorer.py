"""OLPB's explorer: a model's memory under a plan, and its backward pass on many nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.memory.budgets import extra_work
from workbench.memory.orders import least_bound
from workbench.memory.plan import MemoryPlan
from workbench.memory.planning import PLANNERS, plan_memory
from workbench.memory.recomputation import BudgetError
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.olpb.algorithms import SCANS
from workbench.olpb.costs.backward import decoupled_s, plan
from workbench.olpb.costs.stored_passes import stored_work
from workbench.olpb.costs.timing import Timing, scan_timing
from workbench.olpb.paper.memory import draw_arena, placed
from workbench.olpb.paper.testbed import (
    BATCH_SIZE,
    DELAY_FACTOR,
    DPB_MODULES,
    NODES,
    Testbed,
    variant,
)
from workbench.olpb.paper.titles import PLANNER_TITLES, megabytes
from workbench.reproduction.parameters import PARAMETERS, Parameter, Parameters
from workbench.utils.numbers import three_digits
from workbench.widgets import Shared, Slider

PHASES = ("training", "inference")
_SMALL = 150
"""Steps, up to which a round of the search for a better packing takes milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    """Parameters with their sliders."""

    model: Annotated[str, PARAMETERS["model"]] = "squeezenet"
    phase: Annotated[str, Parameter("what the memory is planned for", options=lambda: PHASES)] = (
        "training"
    )
    planner: Annotated[str, PARAMETERS["planner"].among(PLANNERS.keys)] = "workbench"
    batch_size: Annotated[int, Slider(1, 64, scale="log", step=2)] = BATCH_SIZE
    budget_percent: Annotated[
        float,
        Parameter("of the plan's bytes; what does not fit is computed again", "%", low=1, high=100),
        Slider(20, 100, step=5, label="memory budget"),
    ] = 100.0
    workers: Annotated[int, Slider(1, 64, label="nodes")] = NODES
    levels: Annotated[
        int, Parameter("of operators in a subtask", low=1, high=64), Slider(1, 8, label="levels")
    ] = 2
    scan: Annotated[str, Parameter("which parallel scan", options=lambda: SCANS)] = "hillis_steele"
    delay_factor: Annotated[
        float,
        Parameter("p: mean delay of a message", "ms", low=0, high=10_000),
        Slider(0, 60, step=1, label="delay"),
    ] = DELAY_FACTOR
    bandwidth_mbps: Annotated[float, Slider(1, 10_000, scale="log", label="bandwidth")] = 100.0


SHARED = Shared(
    "OLPB: a model's memory under a plan, and its backward pass on many nodes",
    "Above, every result of the graph as a rectangle: where it lies in the block, and how long. "
    "What does not fit the memory budget is thrown away and computed again. Below, seconds of a "
    "backward pass on that many nodes, as the paper counts and as the arithmetic costs; "
    "bandwidth matters in the latter alone.",
    {
        "phase": PHASES,
        "planner": tuple(PLANNERS),
        "batch_size": (BATCH_SIZE, 8, 32),
        "budget_percent": (60.0, 100.0),
        "workers": (4, NODES, 64),
        "levels": (1, 2, 4),
        "delay_factor": (1.0, DELAY_FACTOR),
        "bandwidth_mbps": (10.0, 100.0, 1000.0),
    },
)


_Network = tuple[str, int, bool]
"""A network, a batch size and whether it is trained."""

_flow = lru_cache(maxsize=8)(stored_dataflow)


@lru_cache(maxsize=8)
def _order(network: _Network) -> Sequence[int]:
    return least_bound(_flow(*network))


@lru_cache(maxsize=16)
def _plan(network: _Network, planner: str, budget_bytes: int | None = None) -> MemoryPlan:
    flow, searches = _flow(*network), PLANNERS[planner].order == "least_bound"
    order = _order(network) if searches else None
    rounds = int(len(flow.steps) <= _SMALL)
    return plan_memory(flow, planner, budget_bytes, order=order, rounds=rounds)


TIMES: dict[str, Any] = {
    **dict.fromkeys(("method", "counting"), pl.String),
    "nodes": pl.Int64,
    **dict.fromkeys(("backward_s", "flops", "bytes_sent"), pl.Float64),
}
PAPER, ARITHMETIC = "as the paper counts", "as the arithmetic costs"


def table(setting: Setting) -> pl.DataFrame:
    """Seconds of a backward pass by every method, in both countings: a row each.

    ``nodes`` that take part; ``flops`` of all nodes, in which what an operator takes whatever its
    size counts as the paper counts, and ``bytes_sent``, which the paper does not count.
    """
    by_paper = variant(
        nodes=setting.workers,
        delay_factor=setting.delay_factor,
        batch_size=setting.batch_size,
        scan=setting.scan,
    )
    bare = replace(by_paper.constants, operator_ms=0.0)
    by_arithmetic = replace(by_paper, constants=bare)
    rows: list[tuple[object, ...]] = []
    for method, name in (("olpb_l2", f"OLPB, l = {setting.levels}"), ("bppsa", "BPPSA")):
        levels = setting.levels if method == "olpb_l2" else None
        timing = by_paper.timing(setting.model, method, levels=levels)
        rows.append((name, PAPER, setting.workers, timing.seconds, timing.flops, None))
        timing = _by_arithmetic(setting, method, by_arithmetic)
        about = (timing.seconds, timing.flops, timing.bytes_sent)
        rows.append((name, ARITHMETIC, setting.workers, *about))
    for counting, testbed in ((PAPER, by_paper), (ARITHMETIC, by_arithmetic)):
        units = testbed.subtasks(setting.model, "dpb")
        modules = min(DPB_MODULES, setting.workers, len(units) - 1)
        decoupled = decoupled_s(units, testbed.pool(modules), modules)
        flops = sum(unit.backward_flops for unit in units)
        alone_s = flops / testbed.pool(1).nodes[0].flops_per_s
        rows.append(("DPB", counting, modules, decoupled, flops, None))
        rows.append(("one node", counting, 1, alone_s, flops, 0.0))
    return pl.DataFrame(rows, TIMES, orient="row")


def _by_arithmetic(setting: Setting, method: str, testbed: Testbed) -> Timing:
    """A scan of true Jacobians; FLOPs and bytes are in proportion to the batch."""
    levels, unit = (setting.levels, "operator") if method == "olpb_l2" else (1, "matrix_layer")
    work = _work(setting.model, unit, levels, setting.workers, setting.scan)
    planned = plan(len(work.after_flops), setting.workers, setting.scan)
    batch = work.times(setting.batch_size)
    pool = testbed.pool()
    nodes = tuple(replace(node, bandwidth_bps=1e6 * setting.bandwidth_mbps) for node in pool.nodes)
    return scan_timing(planned, batch, replace(pool, nodes=nodes))


_work = lru_cache(maxsize=64)(stored_work)


def draw(setting: Setting) -> dict[str, Any]:
    """The arena over the steps of a plan, and seconds of a backward pass by every method."""
    network = (setting.model, setting.batch_size, setting.phase == "training")
    memory = _memory(network, setting.planner, setting.budget_percent)
    return figures.stacked(memory, _backward(table(setting), setting))


@lru_cache(maxsize=16)
def _memory(
    network: _Network, planner: str, budget_percent: float
) -> alt.LayerChart | alt.FacetChart | alt.Chart:
    chosen = _plan(network, planner)
    if budget_percent < 100:
        try:
            chosen = _plan(network, planner, int(chosen.total_bytes * budget_percent / 100))
        except BudgetError as error:
            text = alt.Chart(pl.DataFrame({"text": [str(error)]})).mark_text(limit=360)
            return text.encode(text=alt.Text("text:N")).properties(title="No plan")
    flow, (model, batch_size, training) = _flow(*network), network
    again = 100 * extra_work(flow, chosen)
    facts = [
        f"block {megabytes(chosen.total_bytes)}, {PLANNER_TITLES.get(planner, planner)}",
        f"dashed: bound {megabytes(chosen.bound_bytes)}",
        f"every result kept {megabytes(int(flow.sizes.sum()))}",
        *([f"{again:.0f} % of the work done again"] if again else []),
    ]
    chart = draw_arena(placed(chosen, model, training, batch_size))
    chart.title = [*chart.title[:1], *facts, "below 0: held outside of the block"]
    return chart


def _backward(frame: pl.DataFrame, setting: Setting) -> alt.FacetChart:
    order = frame["method"].unique(maintain_order=True).to_list()
    drawn = frame.with_columns(pl.Series("text", map(_seconds, frame["backward_s"])))
    scale = alt.Scale(type="log", nice=False, padding=24)
    axis = alt.Axis(labelExpr=_LABEL, tickCount=4)
    base = alt.Chart().encode(
        y=alt.Y("method:N", sort=order, title=None),
        x=alt.X("backward_s:Q", title="seconds", scale=scale, axis=axis),
    )
    bars = base.mark_point(filled=True, size=60, color=figures.PALETTE[0])
    texts = base.mark_text(align="left", dx=7).encode(text=alt.Text("text:N"))
    title = [
        "A backward pass",
        f"{setting.workers} nodes, batch {setting.batch_size} (cost model)",
    ]
    chart = alt.layer(bars, texts, data=drawn).properties(height=18 * len(order), width=150)
    return parts.facets(chart, "counting", [PAPER, ARITHMETIC], title).resolve_scale(
        x="independent"
    )


_LABEL = "format(datum.value, datum.value < 1e6 ? '~g' : '.0e')"

_UNITS = {"s": 1.0, "h": 3600.0, "days": 86_400.0, "years": 365.25 * 86_400.0}
"""Seconds in a unit; hours are used from ten thousand seconds on, the others from 1 on."""


def _seconds(seconds: float) -> str:
    """Text of a time, to three digits.

    >>> _seconds(2_046_000.0)
    '23.7 days'
    """
    units = [unit for unit in _UNITS if seconds >= (1e4 if unit == "h" else _UNITS[unit])]
    unit = units[-1] if units else "s"
    number = seconds / _UNITS[unit]
    return f"{three_digits(number)} {unit}"
