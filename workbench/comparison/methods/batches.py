"""How many samples each worker of synchronous training learns from in an iteration."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heapreplace

from workbench.comparison.problem import Problem, UnusableError

BY_SPEED = "SGD that learns more from fast nodes' samples"
"""What an update is with batches by speed, and gradients weighted by them."""


def equal(problem: Problem) -> dict[int, int]:
    """The same for all data owners."""
    return dict.fromkeys(problem.owners, problem.batch_size)


def by_speed(problem: Problem) -> dict[int, int]:
    """As many together, divided so that the slowest takes the shortest time; at least one each.

    Raises UnusableError: nobody would have another batch than with equal ones.
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


def assumes(problem: Problem, batches: Mapping[int, int]) -> tuple[str, ...]:
    """What is assumed where samples of some nodes are learnt from more often than others'."""
    often = {node: count / problem.samples[node] for node, count in batches.items()}
    ratio = max(often.values()) / min(often.values())
    if ratio < 1.005:
        return ()
    names = problem.cluster.names
    most, least = (names[pick(often, key=lambda node: often[node])] for pick in (max, min))
    return (f"each sample of {most} is learnt from {ratio:.3g} times as often as one of {least}",)
