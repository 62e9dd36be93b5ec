"""A node that learns alone: from its own samples, or from those that all holders send it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.comparison.question import Pair, Question, UnusableError, at_beginning
from workbench.comparison.use import DryRun, Use
from workbench.comparison.ways.way import EQUAL, Option, Way, fastest
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

AHEAD = 2
"""Batches that are sent before they are needed; more, where they are long on their way."""

MOST_AHEAD = 500
"""Where they are on their way for longer than it takes to learn from so many."""


def with_own_samples(question: Question) -> Option:
    """The holder of samples that learns fastest from its own."""
    return fastest(question, (_option(question, node, (node,)) for node in question.holders))


def with_all_samples(question: Question) -> Option:
    """The node that learns fastest from all samples, which the others send to it."""
    if len(question.cluster) == 1:
        raise UnusableError("there is nobody to send samples")
    options = [
        _option(question, node, question.holders)
        for node in range(len(question.cluster))
        if question.holders != (node,)
    ]
    return fastest(question, options)


def _option(question: Question, node: int, holders: Sequence[int]) -> Option:
    batch, names = question.batch_size, question.cluster.names
    counts = [question.cluster.nodes[one].samples or 1 for one in holders]
    shares = {one: batch * count / sum(counts) for one, count in zip(holders, counts, strict=True)}
    sent = {one: share * question.sample_bytes for one, share in shares.items() if one != node}
    routed = question.routed
    compute_s = question.batch_s(node)
    link_s = [
        routed.link(one, node).overhead_s + 8 * size / question.way_bps(one, node)
        for one, size in sent.items()
    ]
    downlink = routed.nodes[node].downlink
    together_s = 8 * sum(sent.values()) / at_beginning(downlink) if downlink else 0.0
    pairs: dict[Pair, float] = {(one, node): size for one, size in sent.items()}
    use = Use(
        iteration_s=max(compute_s, together_s, *link_s),
        samples=batch,
        busy_s={node: compute_s},
        link_bytes=pairs,
        messages=dict.fromkeys(pairs, 1.0),
    )
    nodes = [node, *sent]
    cluster = question.part(nodes)
    cost_s = compute_s * question.speeds[node]
    latencies = [
        question.routed.link(*ends).latency_s for pair in pairs for ends in (pair, pair[::-1])
    ]
    ahead = AHEAD + math.ceil(2 * max(latencies, default=0.0) / use.iteration_s)
    ahead = min(ahead, MOST_AHEAD)

    def programs(iterations: int) -> list[Program]:
        sizes = list(sent.values())
        learner = _learner(iterations, len(sizes), cost_s, ahead)
        return [learner, *(_sender(iterations, size) for size in sizes)]

    assumes: tuple[str, ...] = (f"on {names[node]}",)
    if sent:
        assumes += ("samples are sent in every epoch, ahead of the batch that needs them",)
    return Option(
        use=use,
        dry=DryRun(cluster, nodes, programs, batch, first=ahead + 2, last=ahead + 10),
        learns_from=holders,
        batches={node: batch},
        assumes=assumes,
    )


def _learner(iterations: int, senders: int, cost_s: float, ahead: int) -> Program:
    async def program(context: Context) -> None:
        for _ in range(min(ahead, iterations)):
            for sender in range(1, senders + 1):
                context.send(sender, Message(0, "more", control=True))
        for number in range(iterations):
            for sender in range(1, senders + 1):
                await context.receive("samples", sender=sender)
                if number + ahead < iterations:
                    context.send(sender, Message(0, "more", control=True))
            await context.compute(_nothing, cost_s=cost_s, lane="learn", label=str(number))

    return program


def _sender(iterations: int, size_bytes: float) -> Program:
    async def program(context: Context) -> None:
        for _ in range(iterations):
            await context.receive("more")
            context.send(0, Message(context.node, "samples", None, size_bytes))

    return program


def _nothing() -> None:
    return None


WAYS = (
    Way(name="one node", system="one node", update=EQUAL, plan=with_own_samples),
    Way(
        name="one node, all samples sent there",
        system="one node",
        update=EQUAL,
        moves_samples=True,
        plan=with_all_samples,
    ),
)
