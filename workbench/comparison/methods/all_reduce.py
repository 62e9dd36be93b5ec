"""Data-parallel training by an all-reduce of gradients, without a server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from workbench.comparison.cost import Phase, no_work, periods
from workbench.comparison.methods.batches import assumes, by_speed, equal
from workbench.comparison.methods.method import BY_SPEED, EQUAL, Method, Plan
from workbench.comparison.problem import Problem, UnusableError
from workbench.sharding.collectives import all_reduce, assemble

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


MOST_NODES = 100
"""Largest number of nodes: the messages to simulate grow as its square."""


def plan(problem: Problem, batches: Callable[[Problem], dict[int, int]]) -> Plan:
    """All data owners learn from their batches and average their gradients in every iteration.

    Averaging begins when all have their gradients, so that every iteration takes as long.
    """
    samples, members, size = batches(problem), nodes(problem), float(problem.model_bytes)
    cluster = problem.routes.part(members, [1.0] * len(members))
    learnt = problem.accumulate * sum(samples.values())

    def phase(part: Problem) -> Phase:
        own_s = [part.step_s(node, samples[node]) for node in members]

        def programs(iterations: int) -> list[Program]:
            return [_worker(iterations, seconds, size) for seconds in own_s]

        return Phase(cluster, members, programs, learnt, first=1, last=2)

    return Plan.of(
        problem,
        periods(problem, phase),
        learns_from=members,
        batches=samples,
        assumes=assumes(problem, samples),
        accumulates=problem.accumulate,
    )


def nodes(problem: Problem) -> list[int]:
    """The data owners.

    Raises UnusableError: there is a single one, or more than `MOST_NODES`.
    """
    members = list(problem.owners)
    if len(members) < 2:
        raise UnusableError("an all-reduce needs at least two nodes that hold samples")
    if len(members) > MOST_NODES:
        raise UnusableError(
            f"{len(members)} nodes hold samples; an all-reduce is compared among up to {MOST_NODES}"
        )
    return members


def _worker(iterations: int, step_s: float, size_bytes: float) -> Program:
    async def program(context: Context) -> None:
        group = sorted((context.node, *context.peers))
        for number in range(iterations):
            await context.compute(no_work, cost_s=step_s, lane="learn", label=str(number))
            await assemble(context, group)
            await all_reduce(context, group, None, size_bytes)

    return program


METHODS = (
    Method(
        name="all-reduce",
        system="all-reduce",
        update=EQUAL,
        planner=partial(plan, batches=equal),
    ),
    Method(
        name="all-reduce, batches by speed",
        system="all-reduce",
        update=BY_SPEED,
        planner=partial(plan, batches=by_speed),
    ),
)
