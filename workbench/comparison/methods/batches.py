"""How many samples each worker of synchronous training learns from in an iteration."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heapreplace

from workbench.comparison.problem import Problem, UnusableError


def equal(problem: Problem) -> dict[int, int]:
    """The same batch for every data owner."""
    return dict.fromkeys(problem.owners, problem.batch_size)


def by_speed(problem: Problem) -> dict[int, int]:
    """Batches by speed, with the total of equal batches: the slowest takes the least time possible.

    Every owner has at least one sample. Raises UnusableError: the batches would be equal.
    """
    counts = dict.fromkeys(problem.owners, 1)
    next_s = [(2 * problem.sample_s[node], at, node) for at, node in enumerate(counts)]
    heapify(next_s)
    for _ in range((problem.batch_size - 1) * len(counts)):
        _, at, node = next_s[0]
        counts[node] += 1
        heapreplace(next_s, ((counts[node] + 1) * problem.sample_s[node], at, node))
    if counts == equal(problem):
        raise UnusableError("all nodes that hold samples are equally fast, so batches are equal")
    return counts


def assumes(problem: Problem, learnt: Mapping[int, float]) -> tuple[str, ...]:
    """The assumption that some nodes' samples are used more often, where they are.

    `learnt` are the samples that each node learns from in the same time.
    """
    often = {node: count / problem.samples[node] for node, count in learnt.items()}
    ratio = max(often.values()) / min(often.values())
    if ratio < 1.005:
        return ()
    names = problem.cluster.names
    most, least = (names[pick(often, key=lambda node: often[node])] for pick in (max, min))
    return (f"each sample on {most} is used {ratio:.3g} times as often as one on {least}",)
