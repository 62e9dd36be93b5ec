"""What goes wrong in a comparison: a link that halts or fails, and how long peers wait."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

from workbench.clusters import Schedule
from workbench.runtime import LinkDown

if TYPE_CHECKING:
    from workbench.comparison.question import Question
    from workbench.comparison.ways import Option

PATIENCE = 2
"""Exchanges of models that peers wait for the silent."""


def patience_s(question: Question, option: Option) -> float:
    """Seconds of silence after which peers count a node as gone: `PATIENCE` exchanges of models.

    In an exchange every node sends its model to all others over its slowest link.
    """
    nodes = sorted(option.learns_from)
    slowest_s = max(
        question.routed.links[pair].overhead_s
        + question.routed.links[pair].latency_s
        + 8 * question.model_bytes / question.path_bps(*pair)
        for pair in permutations(nodes, 2)
    )
    return PATIENCE * (len(nodes) * slowest_s + max(map(question.batch_s, nodes)))


def halting(question: Question, victim: int, end_s: float) -> Question:
    """The question with a node's link that carries nothing in the second quarter of a time."""
    links, ends = dict(question.cluster.links), _link_of(question, victim)
    for pair in [pair for pair in links if set(pair) == ends]:
        rate = Schedule.of(links[pair].bandwidth).scaled(0.0, end_s / 4, end_s / 2)
        links[pair] = replace(links[pair], bandwidth_bps=rate)
    return replace(question, cluster=replace(question.cluster, links=links))


def link_down(question: Question, victim: int, from_s: float) -> tuple[LinkDown, ...]:
    """The failure of a node's link, for all pairs of nodes that it lies between."""
    names, ends = question.cluster.names, _link_of(question, victim)
    return tuple(
        LinkDown(names[a], names[b], from_s)
        for (a, b), path in sorted(question.paths.items())
        if any(set(hop) == ends for hop in pairwise(path))
    )


def _link_of(question: Question, victim: int) -> set[int]:
    """A node and its first neighbour; the node alone if it has none."""
    return {victim, *[pair[1] for pair in question.cluster.links if pair[0] == victim][:1]}
