"""Data-parallel training by an all-reduce of gradients: no server, every node has the mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from workbench.comparison.question import Question, UnusableError
from workbench.comparison.use import Phase, no_work
from workbench.comparison.ways.batches import BY_SPEED, assumes, by_speed, equal
from workbench.comparison.ways.way import EQUAL, Option, Way
from workbench.decentralised.butterfly import assemble, butterfly

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


MOST_NODES = 100
"""Their messages, which are simulated, grow as the square of their number."""


def plan(question: Question, batches: Callable[[Question], dict[int, int]]) -> Option:
    """All holders of samples learn from a batch and average their gradients in every iteration.

    They begin to average when all have their gradients, so that iterations are alike.
    """
    samples = batches(question)
    nodes, size = list(question.holders), float(question.model_bytes)
    if len(nodes) < 2:
        raise UnusableError("an all-reduce needs at least two nodes that hold samples")
    if len(nodes) > MOST_NODES:
        raise UnusableError(
            f"{len(nodes)} nodes hold samples; an all-reduce is compared among up to {MOST_NODES}"
        )
    own_s = [question.batch_s(node, samples[node]) for node in nodes]

    def programs(iterations: int) -> list[Program]:
        return [_worker(iterations, seconds, size) for seconds in own_s]

    cluster = question.routes.part(nodes, [1.0] * len(nodes))
    phase = Phase(cluster, nodes, programs, sum(samples.values()), first=1, last=2)
    return Option.of(
        question,
        [phase],
        learns_from=nodes,
        batches=samples,
        assumes=assumes(question, samples),
    )


def _worker(iterations: int, batch_s: float, size_bytes: float) -> Program:
    async def program(context: Context) -> None:
        for number in range(iterations):
            await context.compute(no_work, cost_s=batch_s, lane="learn", label=str(number))
            await assemble(context)
            await butterfly(context, size_bytes)

    return program


WAYS = (
    Way(
        name="all-reduce",
        system="all-reduce",
        update=EQUAL,
        plan=partial(plan, batches=equal),
    ),
    Way(
        name="all-reduce, batches by speed",
        system="all-reduce",
        update=BY_SPEED,
        plan=partial(plan, batches=by_speed),
    ),
)
