"""What an iteration of sharded training takes, and the memory that it needs.

Rajbhandari et al. 2020 (ZeRO), Secs. 5 and 7: a node of N sends 2(N-1)/N of the model's bytes in
stages 0 to 2, and 3(N-1)/N at most in stage 3; more where stages 2 and 3 reduce the gradients of
several batches. Seconds follow the schedule exactly: a computation
waits for its collectives, a collective for the one before it and for its messages, a message for
the link.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.clusters import Link, Schedule
from workbench.sharding.schedules import (
    ALL_REDUCE,
    IN_FLIGHT,
    Bucket,
    Collective,
    Compute,
    Plan,
    operations,
)
from workbench.utils.checks import (
    MOST_BYTES,
    NOT_NEGATIVE,
    UserError,
    at_least,
    check_fields,
    check_kind,
    check_layers,
    check_range,
    check_whole,
    listed,
)

FloatArray = NDArray[np.float64]

MOST_ITERATIONS = 16
"""Iterations among which one is sought that repeats an earlier one."""

TIED = "give the layers of each weight, such as ((1, 9),)"

ROUNDING = 1e-9
"""Relative difference below which two iterations are the same."""


# N = node, L = layer
@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """A model and nodes that each learn from their own samples.

    Parameters
    ----------
    forward_s, backward_s
        Seconds of a batch of each node in each layer, shape (N, L).
    update_s
        Seconds of an update of all weights of each layer, shape (N, L).
    param_bytes
        Trained parameters of each layer, shape (L,). A tied weight counts at its first layer.
    links
        Links by source and target, between each two nodes in both directions. Where a bandwidth
        changes over time, its first value above 0 counts.
    tied
        Layers that share a weight, from 1, a tuple for each such weight.
    accumulate
        Batches of each node in an iteration, whose gradients are added up.
    optimiser_vectors
        Size of the optimiser's state over that of the parameters: 1 for a momentum, 2 for Adam.
    other_bytes
        What each node needs beside parameters, gradients and the optimiser's state, shape (N,):
        activations, and parameters that are not trained, which all nodes hold.
    memory_bytes
        Memory of each node, shape (N,); by default without limit.
    """

    forward_s: FloatArray
    backward_s: FloatArray
    update_s: FloatArray
    param_bytes: FloatArray
    links: Mapping[tuple[int, int], Link]
    tied: tuple[tuple[int, ...], ...] = ()
    accumulate: int = field(default=1, metadata=at_least(1))
    optimiser_vectors: float = field(default=0.0, metadata=NOT_NEGATIVE)
    other_bytes: FloatArray | None = None
    memory_bytes: FloatArray | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "param_bytes", check_layers("param_bytes", self.param_bytes))
        layers = len(self.param_bytes)
        for name in ("forward_s", "backward_s", "update_s"):
            rows = listed(name, getattr(self, name), "give a row a node")
            seconds = [check_layers(name, row) for row in rows]
            if not seconds or any(len(row) != layers for row in seconds):
                raise UserError(
                    f"{name} has rows of {[len(row) for row in seconds]} layers; give a row a "
                    f"node, with {layers} layers"
                )
            object.__setattr__(self, name, np.array(seconds))
        nodes = len(self.forward_s)
        if not len(self.backward_s) == len(self.update_s) == nodes:
            raise UserError("forward_s, backward_s and update_s have rows of other nodes")
        limits = ("other_bytes", 0.0, MOST_BYTES), ("memory_bytes", math.inf, math.inf)
        for name, usual, most in limits:
            sizes = getattr(self, name)
            sizes = listed(name, [usual] * nodes if sizes is None else sizes, "give a size a node")
            if len(sizes) != nodes:
                raise UserError(f"{name} has {len(sizes)} sizes for {nodes} nodes")
            checked = np.array([check_range(name, size, 0, most) for size in sizes])
            object.__setattr__(self, name, checked)
        if not isinstance(self.links, Mapping):
            raise TypeError(
                f"links is {self.links!r}; give a mapping, such as {{(0, 1): Link(1e9)}}"
            )
        pairs = list(permutations(range(nodes), 2))
        for pair in pairs:
            check_kind(f"link {pair}", self.links.get(pair), Link, "a clusters.Link for each pair")
        if strange := self.links.keys() - {*pairs}:
            raise UserError(f"links has {strange}; give pairs of nodes, from 0 to {nodes - 1}")
        tied = tuple(
            tuple(check_whole("tied layer", layer, 1) for layer in listed("tied", used, TIED))
            for used in listed("tied", self.tied, TIED)
        )
        if any(not used or max(used) > layers for used in tied):
            raise UserError(f"tied is {tied}; {TIED}; layers are 1 to {layers}")
        object.__setattr__(self, "tied", tied)

    @property
    def nodes(self) -> int:
        """Number of nodes, N."""
        return len(self.forward_s)

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.param_bytes)

    def buckets(self, plan: Plan) -> tuple[Bucket, ...]:
        """Buckets of a plan, first layer first."""
        check_kind("plan", plan, Plan, "a sharding.Plan")
        return plan.buckets(self.param_bytes.tolist(), self.tied)

    def seconds(self, plan: Plan, work: Compute) -> FloatArray:
        """Seconds of a computation on each node; from stage 1 on each updates its share alone."""
        bucket = self.buckets(plan)[work.bucket]
        by_layer: FloatArray = getattr(self, f"{work.lane}_s")
        if work.lane != "update":
            by_layer = by_layer[:, bucket.first - 1 : bucket.last]
        elif plan.stage:
            by_layer = by_layer / self.nodes
        seconds: FloatArray = by_layer.sum(axis=1)
        return seconds

    @cached_property
    def between_nodes(self) -> FloatArray:
        """Overhead, seconds a byte and latency from each node to each other; shape (3, N, N)."""
        found = np.zeros((3, self.nodes, self.nodes))
        for (source, target), link in self.links.items():
            rate = link.bandwidth
            if isinstance(rate, Schedule):
                rate = next(value for value in rate.values if value > 0)
            found[:, source, target] = link.overhead_s, 8 / rate, link.latency_s
        return found


def ends_s(problem: Problem, plan: Plan, iterations: int = 1) -> list[float]:
    """Seconds at which the last node ends each of several iterations."""
    iterations = check_whole("iterations", iterations, 1)
    return [float(now_s.max()) for now_s, _ in islice(_iterations(problem, plan), iterations)]


def _iterations(problem: Problem, plan: Plan) -> Iterator[tuple[FloatArray, FloatArray]]:
    """When each node has ended, and each link is free after, one iteration after the other."""
    buckets = problem.buckets(plan)
    order = operations(plan.stage, buckets, problem.accumulate)
    seconds = {
        work: problem.seconds(plan, work) for work in set(order) if isinstance(work, Compute)
    }
    now_s, free_s = np.zeros(problem.nodes), np.zeros((problem.nodes, problem.nodes))
    while True:
        ended = [now_s]
        for operation in order:
            if isinstance(operation, Compute):
                now_s = np.maximum(now_s, ended[operation.after]) + seconds[operation]
                continue
            at_s = np.maximum(now_s, ended[-1])
            for _ in range(rounds(operation)):
                part_bytes = buckets[operation.bucket].size_bytes / problem.nodes
                at_s = _exchange(problem, part_bytes, at_s, free_s)
            ended.append(at_s)
        now_s = np.maximum(now_s, ended[-1])
        yield now_s, free_s


class Steady(NamedTuple):
    """Iterations that repeat themselves: from the end of the `first` to that of the `last`.

    Unlike nodes and links may take turns, and lag behind each other more at first.
    """

    first: int
    last: int
    iteration_s: float


def steady(problem: Problem, plan: Plan) -> Steady:
    """Mean of the iterations after which all nodes and links are as they were.

    Of the second half of `MOST_ITERATIONS`, where they do not repeat themselves earlier.
    """
    ends, states = list[float](), list[FloatArray]()
    for now_s, free_s in islice(_iterations(problem, plan), MOST_ITERATIONS):
        end_s = float(now_s.max())
        state = np.vstack([now_s, np.maximum(now_s[:, None], free_s)]) - end_s
        same = (np.abs(state - before).max() <= ROUNDING * end_s for before in states)
        first = next((at for at, repeats in enumerate(same) if repeats), None)
        ends.append(end_s)
        states.append(state)
        if first is not None:
            break
    else:
        first = MOST_ITERATIONS // 2
    last = len(ends) - 1
    return Steady(first + 1, last + 1, (ends[last] - ends[first]) / (last - first))


def iteration_s(problem: Problem, plan: Plan) -> float:
    """Seconds of an iteration, as a mean of those of the steady state."""
    return steady(problem, plan).iteration_s


def sent_bytes(problem: Problem, plan: Plan) -> float:
    """Bytes that each node sends in an iteration."""
    buckets = problem.buckets(plan)
    sent = sum(
        rounds(each) * buckets[each.bucket].size_bytes
        for each in operations(plan.stage, buckets, problem.accumulate)
        if isinstance(each, Collective)
    )
    return sent * (problem.nodes - 1) / problem.nodes


def memory_bytes(problem: Problem, plan: Plan) -> FloatArray:
    """Bytes that each node needs at the peak of an iteration, shape (N,).

    Parameters, gradients and the optimiser's state are whole or shares of 1/N, by the stage; beside
    shares of gradients (stages 2 and 3) a node holds `IN_FLIGHT` buckets of whole ones, beside
    shares of parameters (stage 3) the bucket in use and the next one. Buckets with tied weights are
    held all the time. What a collective has received and not added up yet is not counted, nor what
    it still sends to nodes that are behind.
    """
    buckets, stage = problem.buckets(plan), plan.stage
    whole = float(problem.param_bytes.sum())
    part = whole / problem.nodes
    tied = {at for at, bucket in enumerate(buckets) if bucket.is_tied}

    def held(places: Collection[int]) -> float:
        return sum(buckets[at].size_bytes for at in {*places, *tied} if 0 <= at < len(buckets))

    most = 0.0
    for at in range(len(buckets)):
        gathered = held({at, at - 1}) if stage == 3 else 0.0
        reduced = held(range(at, at + IN_FLIGHT)) if stage >= 2 else 0.0
        most = max(most, gathered + reduced)
    copies = (
        (part if stage == 3 else whole)
        + (part if stage >= 2 else whole)
        + problem.optimiser_vectors * (part if stage else whole)
    )
    assert problem.other_bytes is not None  # as the constructor sets it
    return problem.other_bytes + copies + most


def lacking(problem: Problem, plan: Plan) -> int:
    """Number of nodes that have less memory than they need."""
    assert problem.memory_bytes is not None  # as the constructor sets it
    return int((memory_bytes(problem, plan) > problem.memory_bytes).sum())


def rounds(collective: Collective) -> int:
    """Exchanges of shares among all nodes that a collective consists of."""
    return 2 if collective.kind == ALL_REDUCE else 1


def _exchange(
    problem: Problem, part_bytes: float, at_s: FloatArray, free_s: FloatArray
) -> FloatArray:
    """When each node has the parts of all others, which these send at their times.

    `free_s` is when each link is free, and is changed.
    """
    overhead_s, byte_s, latency_s = problem.between_nodes
    np.maximum(free_s, at_s[:, None], out=free_s)
    free_s += overhead_s + part_bytes * byte_s
    arrived_s = free_s + latency_s
    np.fill_diagonal(arrived_s, at_s)
    longest_s: FloatArray = arrived_s.max(axis=0)
    return longest_s
