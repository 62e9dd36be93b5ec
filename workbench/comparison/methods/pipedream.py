"""PipeDream (Narayanan et al. 2019): a pipeline that is never flushed.

Every batch is one micro-batch, and a stage keeps the weights of each batch that is in flight. The
stages are those of `workbench.pipelines.asynchronous.balanced`.

Deviation: a stage stands on one node, and nodes differ, so that their order is tried as well.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import permutations

from workbench.comparison.methods.method import Method, Plan
from workbench.comparison.methods.pipeline import (
    Pipeline,
    checked,
    fastest_of,
    pipe_problem,
)
from workbench.comparison.problem import Problem, UnusableError
from workbench.pipelines.asynchronous import balanced

STALE = "stale weights by stage"

PRICED = 3
"""Plans that are simulated."""

ALL_ORDERS = 4
"""Most nodes of which all orders are tried."""


def plan(problem: Problem) -> Plan:
    """The fastest of PipeDream's pipelines, with a node a stage."""
    return fastest_of(problem, unflushed(problem))


@lru_cache(maxsize=64)
def unflushed(problem: Problem) -> tuple[Pipeline, ...]:
    """PipeDream's plans with the shortest busiest stage or link, by orders of the nodes."""
    problem = replace(problem, accumulate=1)  # every batch is a step
    nodes = checked(problem)
    pipe, places = pipe_problem(problem, nodes)
    if pipe.tied:
        layers = " and ".join(map(str, pipe.tied[0].layers))
        raise UnusableError(f"layers {layers} share a weight, which stages update at other times")
    orders: list[tuple[int, ...]] = []
    for count in range(2, min(len(nodes), pipe.layers) + 1):
        chosen = range(len(nodes)) if len(nodes) <= ALL_ORDERS else range(count)
        every = permutations(chosen, count)
        orders += every if len(nodes) <= ALL_ORDERS else [tuple(chosen), tuple(chosen)[::-1]]
    found = [
        Pipeline(problem, pipe, places, balanced(pipe, order), flushes=False) for order in orders
    ]
    found.sort(key=lambda each: (each.lacking, float(f"{each.predicted_s:.9g}")))
    return tuple(found[:PRICED])


METHODS = (
    Method(
        name="pipeline, pipedream",
        system="pipeline",
        update=STALE,
        splits_model=True,
        moves_samples=True,
        planner=plan,
    ),
)
