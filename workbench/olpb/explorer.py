"""OLPB's explorer: a model's memory under a plan, and its backward pass on many nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from workbench import figures
from workbench.figures import parts
from workbench.olpb.algorithms import SCANS
from workbench.olpb.costs.arithmetic import as_arithmetic_costs, network_elements
from workbench.olpb.costs.backward import decoupled_s, plan
from workbench.olpb.costs.timing import Timing, Work, scan_timing
from workbench.olpb.memory.plan import MemoryPlan
from workbench.olpb.memory.planning import PLANNERS, plan_memory, quick_order
from workbench.olpb.memory.recomputation import BudgetError
from workbench.olpb.memory.stored import stored_dataflow
from workbench.olpb.memory.trade import extra_work
from workbench.olpb.paper import charts
from workbench.olpb.paper.charts.memory import megabytes
from workbench.olpb.paper.experiments.memory import placed
from workbench.olpb.paper.testbed import (
    BATCH_SIZE,
    DELAY_FACTOR,
    DPB_MODULES,
    NODES,
    Testbed,
    variant,
)
from workbench.parameters import PARAMETERS, Parameter, Parameters
from workbench.widgets import Slider

PHASES = ("training", "inference")
_PACKING_S = 0.02
"""That packing is improved for, so that a slider is answered at once."""


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
    level: Annotated[
        int, Parameter("of operators in a subtask", low=1, high=64), Slider(1, 8, label="levels")
    ] = 2
    scan: Annotated[str, Parameter("which parallel scan", options=lambda: SCANS)] = "hillis_steele"
    delay_factor: Annotated[
        float,
        Parameter("p: mean delay of a message", "ms", low=0, high=10_000),
        Slider(0, 60, step=1, label="delay"),
    ] = DELAY_FACTOR
    bandwidth_mbps: Annotated[float, Slider(1, 10_000, scale="log", step=10**0.02)] = 100.0


def _plan(
    model: str, training: bool, batch_size: int, planner: str, budget_percent: float
) -> MemoryPlan:
    flow = stored_dataflow(model, batch_size, training)
    order = quick_order(flow) if PLANNERS[planner].order == "searched" else None
    whole = plan_memory(flow, planner, order=order, time_limit_s=_PACKING_S)
    if budget_percent == 100:
        return whole
    budget = int(whole.total_bytes * budget_percent / 100)
    return plan_memory(flow, planner, budget, order=order, time_limit_s=_PACKING_S)


TIMES = {
    "method": pl.String,
    "counting": pl.String,
    "nodes": pl.Int64,
    "backward_s": pl.Float64,
    "flops": pl.Float64,
    "bytes_sent": pl.Float64,
}
PAPER, ARITHMETIC = "as the paper counts", "as the arithmetic costs"


def table(setting: Setting) -> pl.DataFrame:
    """Seconds of a backward pass by every method, in both countings: a row each.

    ``nodes`` that take part; ``flops`` of all nodes, in which what an operator takes whatever its
    size counts as the paper counts, and ``bytes_sent``, which the paper does not count.
    """
    by_paper = _testbed(setting)
    bare = replace(by_paper.constants, operator_ms=0.0, number_ns=0.0)
    by_arithmetic = replace(by_paper, constants=bare)
    rows: list[tuple[object, ...]] = []
    for method, name in (("olpb_l2", f"OLPB, l = {setting.level}"), ("bppsa", "BPPSA")):
        level = setting.level if method == "olpb_l2" else None
        found = by_paper.timing(setting.model, method, level=level)
        rows.append((name, PAPER, setting.workers, found.seconds, found.flops, None))
        found = _by_arithmetic(setting, method, by_arithmetic)
        about = (found.seconds, found.flops, found.bytes_sent)
        rows.append((name, ARITHMETIC, setting.workers, *about))
    for counting, testbed in ((PAPER, by_paper), (ARITHMETIC, by_arithmetic)):
        units = testbed.subtasks(setting.model, "dpb")
        modules = min(DPB_MODULES, setting.workers, len(units) - 1)
        decoupled = decoupled_s(units, testbed.pool(modules), modules)
        flops = sum(one.backward_flops for one in units)
        alone_s = flops / testbed.pool(1).nodes[0].flops_per_s
        rows.append(("DPB", counting, modules, decoupled, flops, None))
        rows.append(("one node", counting, 1, alone_s, flops, 0.0))
    return pl.DataFrame(rows, TIMES, orient="row")


def _testbed(setting: Setting) -> Testbed:
    return variant(
        nodes=setting.workers,
        delay_factor=setting.delay_factor,
        batch_size=setting.batch_size,
        scan=setting.scan,
    )


def _by_arithmetic(setting: Setting, method: str, testbed: Testbed) -> Timing:
    """A scan of true Jacobians; FLOPs and bytes are in proportion to the batch."""
    level, unit = (setting.level, "operator") if method == "olpb_l2" else (1, "layer")
    work = _work(setting.model, unit, level, setting.workers, setting.scan)
    planned = plan(len(work.after_flops), setting.workers, setting.scan)
    parts_of = (work.move_flops, work.value_bytes, work.after_flops)
    batch = Work(*([setting.batch_size * one for one in part] for part in parts_of))
    pool = testbed.pool()
    nodes = tuple(replace(one, bandwidth_bps=1e6 * setting.bandwidth_mbps) for one in pool.nodes)
    return scan_timing(planned, batch, replace(pool, nodes=nodes))


@lru_cache(maxsize=64)
def _work(model: str, unit: str, level: int, nodes: int, scan: str) -> Work:
    """What the scan of one sample costs by arithmetic."""
    elements = network_elements(model, 1, unit, level)
    return as_arithmetic_costs(plan(len(elements), nodes, scan), elements)


def draw(setting: Setting) -> alt.VConcatChart:
    """The arena over the steps of a plan, and seconds of a backward pass by every method."""
    # `to_dict` checks the whole against altair's schema, once.
    with debug_mode(False):
        what = (setting.model, setting.phase == "training", setting.batch_size)
        memory = _memory(*what, setting.planner, setting.budget_percent)
        below_each_other = [memory, _backward(table(setting), setting)]
        resolve = alt.Resolve(scale=alt.ScaleResolveMap(color="independent"))
        return alt.VConcatChart(vconcat=below_each_other, resolve=resolve)


@lru_cache(maxsize=16)
def _memory(
    model: str, training: bool, batch_size: int, planner: str, budget_percent: float
) -> alt.FacetChart | alt.Chart:
    try:
        found = _plan(model, training, batch_size, planner, budget_percent)
    except BudgetError as error:
        text = alt.Chart(pl.DataFrame({"text": [str(error)]})).mark_text(limit=360)
        return text.encode(text="text:N").properties(title="No plan")
    flow = stored_dataflow(model, batch_size, training)
    again = 100 * extra_work(flow, found)
    facts = [
        f"block {megabytes(found.total_bytes)}, bound {megabytes(found.bound_bytes)}",
        f"every result kept {megabytes(int(flow.sizes.sum()))}",
        *([f"{again:.0f} % of the work done again"] if again else []),
    ]
    chart = charts.arena(placed(found, model, training, batch_size))
    chart.title = [*chart.title[:1], *parts.wrapped(*facts, "below 0: held outside of the block")]
    return chart


def _backward(frame: pl.DataFrame, setting: Setting) -> alt.FacetChart:
    order = frame["method"].unique(maintain_order=True).to_list()
    drawn = frame.with_columns(pl.Series("text", [_seconds(one) for one in frame["backward_s"]]))
    base = alt.Chart().encode(
        y=alt.Y("method:N", sort=order, title=None),
        x=alt.X(
            "backward_s:Q",
            title="seconds",
            scale=alt.Scale(type="log", nice=False, padding=24),
            axis=alt.Axis(format="~g", tickCount=4),
        ),
    )
    bars = base.mark_point(filled=True, size=60, color=figures.PALETTE[0])
    texts = base.mark_text(align="left", dx=7).encode(text="text:N")
    title = [
        "A backward pass (cost model)",
        *parts.wrapped(f"{setting.workers} nodes", f"batch {setting.batch_size}"),
    ]
    chart = alt.layer(bars, texts, data=drawn).properties(height=18 * len(order), width=150)
    return parts.facets(chart, "counting", [PAPER, ARITHMETIC], title).resolve_scale(
        x="independent"
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:,.3g} s" if seconds < 1e3 else f"{seconds / 3600:,.3g} h"
