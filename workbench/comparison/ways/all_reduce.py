"""Data-parallel training by an all-reduce of gradients: no server, every node has the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.comparison.question import Question, UnusableError
from workbench.comparison.use import DryRun
from workbench.comparison.ways.way import EQUAL, Option, Way
from workbench.decentralised.butterfly import butterfly

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


def plan(question: Question) -> Option:
    """All holders of samples learn from a batch and average their gradients in every iteration."""
    nodes, size = list(question.holders), float(question.model_bytes)
    if len(nodes) < 2:
        raise UnusableError("an all-reduce takes at least two holders of samples")
    own_s = [question.batch_s(node) for node in nodes]

    def programs(iterations: int) -> list[Program]:
        return [_worker(iterations, seconds, size) for seconds in own_s]

    cluster = question.part(nodes, [1.0] * len(nodes))
    dry = DryRun(cluster, nodes, programs, question.batch_size * len(nodes), first=6, last=10)
    return Option(
        use=dry.settled(),
        dry=dry,
        learns_from=nodes,
        batches=dict.fromkeys(nodes, question.batch_size),
    )


def _worker(iterations: int, batch_s: float, size_bytes: float) -> Program:
    async def program(context: Context) -> None:
        for number in range(iterations):
            await context.compute(_nothing, cost_s=batch_s, lane="learn", label=str(number))
            await butterfly(context, size_bytes)

    return program


def _nothing() -> None:
    return None


WAYS = (Way(name="all-reduce", system="all-reduce", update=EQUAL, plan=plan),)
