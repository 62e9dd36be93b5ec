"""Seconds, bytes and memory of an iteration of sharded training.

Rajbhandari et al. 2020 (ZeRO), Secs. 5 and 7: a node of N sends 2(N-1)/N of the model's bytes in
stages 0 to 2, and 3(N-1)/N at most in stage 3; more where stages 2 and 3 reduce the gradients of
several batches. Seconds follow the schedule exactly: a computation waits for its collectives, a
collective for the one before it and for its messages, a message for the link.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice, permutations
from typing import NamedTuple

import numpy as np

from workbench.clusters import Link, Schedule
from workbench.sharding.collective_costs import exchange_end_s
from workbench.sharding.problem import FloatArray, LayersOnNodes, shaped
from workbench.sharding.schedules import (
    ALL_GATHER,
    IN_FLIGHT,
    Bucket,
    Collective,
    Compute,
    Plan,
    operations,
)
from workbench.utils.checks import MOST_BYTES, NOT_NEGATIVE, at_least, check_kind, check_whole

MOST_ITERATIONS = 16
"""Iterations that are followed to find one that repeats an earlier one."""

ROUNDING = 1e-9
"""Relative difference below which two iterations are the same."""


# N = node, L = layer
@dataclass(frozen=True, eq=False, kw_only=True)
class Problem(LayersOnNodes):
    """A model and nodes that each learn from their own samples.

    Parameters
    ----------
    forward_s, backward_s
        Seconds of a batch of each node in each layer, shape (N, L).
    update_s
        Seconds of an update of all weights of each layer, shape (N, L).
    param_bytes, tied, memory_bytes
        As for `LayersOnNodes`.
    links
        Links by source and target, between each two nodes in both directions. Where a bandwidth
        changes over time, its first value above 0 counts.
    accumulate
        Batches of each node in an iteration, whose gradients are added up.
    optimiser_vectors
        Size of the optimiser's state over that of the parameters: 1 for a momentum, 2 for Adam.
    other_bytes
        Bytes that each node needs beside parameters, gradients and the optimiser's state, shape
        (N,), by default 0: activations, and parameters that are not trained, which all nodes hold.
    """

    accumulate: int = field(default=1, metadata=at_least(1))
    optimiser_vectors: float = field(default=0.0, metadata=NOT_NEGATIVE)
    other_bytes: FloatArray | None = field(
        default=None, metadata=shaped("nodes", optional=True, most=MOST_BYTES)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for pair in permutations(range(self.nodes), 2):
            check_kind(f"link {pair}", self.links.get(pair), Link, "a clusters.Link for each pair")

    def buckets(self, plan: Plan) -> tuple[Bucket, ...]:
        """Buckets of a plan, first layer first."""
        check_kind("plan", plan, Plan, "a sharding.Plan")
        return plan.buckets(self.param_bytes.tolist(), self.tied)

    def seconds(self, plan: Plan, work: Compute) -> FloatArray:
        """Seconds of a computation on each node; from stage 1 on each updates its share alone."""
        if work.lane == "update":
            by_layer = self.update_s / self.nodes if plan.stage else self.update_s
        else:
            bucket = self.buckets(plan)[work.bucket]
            table = self.forward_s if work.lane == "forward" else self.backward_s
            by_layer = table[:, bucket.first - 1 : bucket.last]
        seconds: FloatArray = by_layer.sum(axis=1)
        return seconds

    @cached_property
    def between_nodes(self) -> FloatArray:
        """Overhead, seconds a byte and latency from each node to each other; shape (3, N, N)."""
        lines = np.zeros((3, self.nodes, self.nodes))
        for (source, target), link in self.links.items():
            rate = link.bandwidth
            if isinstance(rate, Schedule):
                rate = next(value for value in rate.values if value > 0)
            lines[:, source, target] = link.overhead_s, 8 / rate, link.latency_s
        return lines


class Iteration(NamedTuple):
    """An iteration on all nodes.

    Attributes
    ----------
    end_s
        When each node has ended it, shape (N,).
    free_s
        When each link is free, shape (N, N).
    sending_bytes
        By bucket: gradients of earlier buckets that each node has reduced, but still sends to nodes
        that are behind, as its backward pass begins; shape (buckets, N).
    """

    end_s: FloatArray
    free_s: FloatArray
    sending_bytes: FloatArray


def _iterations(problem: Problem, plan: Plan) -> Iterator[Iteration]:
    """Iterations, one after the other."""
    buckets, nodes = problem.buckets(plan), problem.nodes
    order = operations(plan.stage, buckets, problem.accumulate)
    seconds = {
        work: problem.seconds(plan, work) for work in set(order) if isinstance(work, Compute)
    }
    now_s, free_s = np.zeros(nodes), np.zeros((nodes, nodes))
    while True:
        ended, awaited = [now_s], 0
        sending_bytes = np.zeros((len(buckets), nodes))
        reduced: dict[int, tuple[float, FloatArray]] = {}  # collective -> share, end on each link
        for operation in order:
            if isinstance(operation, Compute):
                now_s = np.maximum(now_s, ended[operation.after])
                awaited = max(awaited, operation.after)
                before = [count for count in reduced if count <= awaited]
                if operation.lane == "backward" and before:  # what came before the last has arrived
                    share_bytes, sent_s = reduced[before[-1]]
                    late_bytes = share_bytes * (sent_s > now_s[:, None]).sum(axis=1)
                    own = sending_bytes[operation.bucket]
                    np.maximum(own, late_bytes, out=own)
                now_s = now_s + seconds[operation]
                continue
            at_s = np.maximum(now_s, ended[-1])
            share_bytes = buckets[operation.bucket].size_bytes / nodes
            for _ in range(operation.rounds):
                at_s = exchange_end_s(share_bytes, at_s, free_s, problem.between_nodes)
            ended.append(at_s)
            if plan.stage >= 2 and operation.kind != ALL_GATHER:
                sent_s = free_s.copy()
                np.fill_diagonal(sent_s, 0.0)
                reduced[len(ended) - 1] = share_bytes, sent_s
        now_s = np.maximum(now_s, ended[-1])
        yield Iteration(now_s, free_s, sending_bytes)


def ends_s(problem: Problem, plan: Plan, iterations: int = 1) -> list[float]:
    """Seconds at which the last node ends each of several iterations."""
    iterations = check_whole("iterations", iterations, 1)
    return [float(each.end_s.max()) for each in islice(_iterations(problem, plan), iterations)]


class Steady(NamedTuple):
    """Iterations that repeat themselves: from the end of the `first` to that of the `last`.

    Unlike nodes and links may take turns, and lag behind each other more at first.

    Attributes
    ----------
    sending_bytes
        The most of `Iteration.sending_bytes` in all iterations until then.
    """

    first: int
    last: int
    iteration_s: float
    sending_bytes: FloatArray


@lru_cache(maxsize=256)
def steady(problem: Problem, plan: Plan) -> Steady:
    """Mean of the iterations after which all nodes and links are as they were.

    Where none repeats an earlier one, the mean is of the second half of `MOST_ITERATIONS`.
    """
    ends, states, sending = list[float](), list[FloatArray](), list[FloatArray]()
    for now_s, free_s, sending_bytes in islice(_iterations(problem, plan), MOST_ITERATIONS):
        end_s = float(now_s.max())
        state = np.vstack([now_s, np.maximum(now_s[:, None], free_s)]) - end_s
        same = (np.abs(state - before).max() <= ROUNDING * end_s for before in states)
        first = next((at for at, repeats in enumerate(same) if repeats), None)
        ends.append(end_s)
        states.append(state)
        sending.append(sending_bytes)
        if first is not None:
            break
    else:
        first = MOST_ITERATIONS // 2
    last = len(ends) - 1
    mean_s = (ends[last] - ends[first]) / (last - first)
    return Steady(first + 1, last + 1, mean_s, np.max(sending, axis=0))


def iteration_s(problem: Problem, plan: Plan) -> float:
    """Seconds of an iteration, as a mean of those of the steady state."""
    return steady(problem, plan).iteration_s


def sent_bytes(problem: Problem, plan: Plan) -> float:
    """Bytes that each node sends in an iteration."""
    buckets = problem.buckets(plan)
    sent = sum(
        each.rounds * buckets[each.bucket].size_bytes
        for each in operations(plan.stage, buckets, problem.accumulate)
        if isinstance(each, Collective)
    )
    return sent * (problem.nodes - 1) / problem.nodes


def needed_bytes(problem: Problem, plan: Plan) -> FloatArray:
    """Bytes that each node needs at the peak of an iteration, shape (N,).

    Parameters, gradients and the optimiser's state are whole or shares of 1/N, by the stage; beside
    shares of gradients (stages 2 and 3) a node holds `IN_FLIGHT` buckets of whole ones, and what it
    still sends of the bucket before to nodes that are behind; beside shares of parameters (stage 3)
    the bucket in use and the next one. Buckets with tied weights are held all the time. What a
    collective has received and not added up yet is not counted.
    """
    buckets, stage = problem.buckets(plan), plan.stage
    whole = float(problem.param_bytes.sum())
    part = whole / problem.nodes
    tied = {at for at, bucket in enumerate(buckets) if bucket.is_tied}

    def held(places: Collection[int]) -> float:
        return sum(buckets[at].size_bytes for at in {*places, *tied} if 0 <= at < len(buckets))

    most = np.zeros(problem.nodes)
    if stage >= 2:
        sending_bytes = steady(problem, plan).sending_bytes
        for at in range(len(buckets)):
            gathered = held({at, at - 1}) if stage == 3 else 0.0
            reduced = held(range(at, at + IN_FLIGHT))
            most = np.maximum(most, gathered + reduced + sending_bytes[at])
    copies = (
        (part if stage == 3 else whole)
        + (part if stage >= 2 else whole)
        + problem.optimiser_vectors * (part if stage else whole)
    )
    others = 0.0 if problem.other_bytes is None else problem.other_bytes
    needed: FloatArray = others + copies + most
    return needed


def lacking(problem: Problem, plan: Plan) -> int:
    """Number of nodes that have less memory than they need."""
    return int((needed_bytes(problem, plan) > problem.limits_bytes).sum())
