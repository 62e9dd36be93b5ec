"""Memory plans of the zoo by every planner, their seconds, and what less memory costs.

``python benchmarks/olpb_memory.py`` prints, for inference and a step of training of each network,
what each planner needs over the bound of the workbench's own order. Status 1 if the workbench's
plan is above 1.02 of its bound or above another planner's; if the pebble planner takes 30 ms for
1,100 nodes or the workbench's first answer 50 ms; or if tracing Inception-v3's training takes 10 s,
or taking it from the store 20 ms. ``python benchmarks/olpb_memory.py plans``, or ``times``, or
``trade`` do one of these; the last prints what less memory costs.

Milliseconds are of the processor's clock, so that what else runs counts little.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import TypeVar

from workbench import memory, training
from workbench.memory import PLANNERS, plan_memory
from workbench.memory.chen import chen
from workbench.memory.dataflow import dataflow
from workbench.memory.lifetimes import lifetimes
from workbench.memory.orders import least_bound
from workbench.memory.recomputation import BudgetError, cost, recomputing
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.zoo import MODELS

T = TypeVar("T")

ABOVE_BOUND = 1.02
PEBBLE_MS, FIRST_MS, TRACE_S = 30.0, 50.0, 10.0
STORE_MS = 20.0
ROUNDS, TURNS, BATCH = 40, 15, 4
CURVES, CURVE_BATCH = ("vgg16", "resnet50", "inception_v3"), 16


def main() -> int:
    asked = sys.argv[1:] or ["plans", "times", "trade"]
    missed = []
    with training.fixed_threads():
        if "times" in asked:
            missed += times()
        if "plans" in asked:
            missed += [plans(name, trains) for name in MODELS for trains in (False, True)]
        if "trade" in asked:
            for name in CURVES:
                curve(name)
    return int(any(missed))


def plans(name: str, trains: bool) -> bool:
    """Every planner's bytes over the bound of the workbench's order."""
    flow = stored_dataflow(name, BATCH if trains else 1, trains)
    found = {one: plan_memory(flow, one, rounds=ROUNDS) for one in PLANNERS}
    ours = found["workbench"]
    least = min(plan.total_bytes for plan in found.values())
    bad = ours.total_bytes > min(ABOVE_BOUND * ours.bound_bytes, least)
    shown = "  ".join(
        f"{one} {plan.total_bytes / ours.bound_bytes:.3f}" for one, plan in found.items()
    )
    print(
        f"{verdict(bad)} {name} {'training' if trains else 'inference'}, {len(flow.steps)} "
        f"operators, bound {ours.bound_bytes / 1e6:.1f} MB: {shown}",
        flush=True,
    )
    return bad


def times() -> list[bool]:
    """Seconds of tracing, of the pebble planner and of the workbench's first answer."""

    def clock_ms(call: Callable[[], object]) -> float:
        return 1e3 * statistics.median(timed(call, process_time)[1] for _ in range(TURNS))

    graph, trace_s = timed(
        lambda: memory.trace("inception_v3", batch_size=2, training=True), process_time
    )
    flow = dataflow(graph)
    share = 1100 / len(flow.steps)
    pebble_ms = clock_ms(lambda: plan_memory(flow, "pebble", order="traced"))
    first_ms = clock_ms(lambda: plan_memory(flow, order="best_first", rounds=0))
    store_ms = clock_ms(lambda: stored_dataflow("inception_v3", 2, training=True))
    rows = [
        ("tracing Inception-v3's training, s", trace_s, TRACE_S),
        (f"pebble planner, ms for 1,100 of {len(flow.steps)} steps", share * pebble_ms, PEBBLE_MS),
        ("the workbench's first answer, ms for as many", share * first_ms, FIRST_MS),
        ("Inception-v3's training from the store, ms", store_ms, STORE_MS),
    ]
    for name, took, bar in rows:
        print(f"{verdict(took >= bar)} {name}: {took:.1f} (bar {bar:g})", flush=True)
    return [took >= bar for _, took, bar in rows]


def curve(name: str) -> None:
    """What a smaller budget costs a step of training."""
    flow = stored_dataflow(name, CURVE_BATCH, training=True)
    order = least_bound(flow)
    bound = lifetimes(flow, order).bound_bytes
    segments = chen(flow, order)
    more = cost(segments).sum() / cost(flow).sum() - 1
    alive = lifetimes(segments, range(len(segments.steps))).bound_bytes
    print(f"       {name}, Chen's segments: {alive / bound:.0%}, {more:.2%} more work")
    for share in (0.8, 0.6, 0.4, 0.3, 0.2):
        try:
            again = recomputing(flow, order, int(share * bound))
        except BudgetError:
            more = "no plan"
        else:
            more = f"{cost(again).sum() / cost(flow).sum() - 1:.2%} more work"
        print(f"       {name}, {share:.0%} of {bound / 1e6:,.0f} MB: {more}")


def timed(call: Callable[[], T], clock: Callable[[], float] = perf_counter) -> tuple[T, float]:
    began_s = clock()
    found = call()
    return found, clock() - began_s


def verdict(bad: bool) -> str:
    return "MISSED" if bad else "met   "


if __name__ == "__main__":
    sys.exit(main())
