"""Dynamic programmes over layers and nodes: ours for a step with its flush, and PipeDream's.

PipeDream's (Narayanan et al. 2019, Sec. 3.1) minimises the slowest stage. With a flush the way of
the first and the last micro-batch counts as well, as in DAPPLE (Fan et al. 2021) and Alpa (Zheng et
al. 2022); Asteroid (Ye et al. 2024) and Sailor (Strati et al. 2025) plan for unlike nodes and their
memory.
"""

from __future__ import annotations

import math
from functools import cache, partial
from itertools import combinations, permutations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.pipelines.bounds import busiest_s
from workbench.pipelines.costs import least_arrival_s
from workbench.pipelines.partitions import Partition, Search, Variant
from workbench.pipelines.problems import Problem
from workbench.sharding.collective_costs import ROUNDS
from workbench.sharding.problem import FloatArray
from workbench.utils.checks import check_kind

WORSE = 2
"""Numbers of stages that `dynamic` tries after the best one."""


class Replicas(NamedTuple):
    """Seconds of the replicas of a stage, by its layers l + 1 to l', shape (L + 1, L + 1).

    Attributes
    ----------
    sample_s
        Seconds of a sample, forward and backward, where replicas share samples.
    recomputed_s
        Seconds of a sample where the forward pass is repeated.
    end_s
        Seconds of the step's end, when gradients are averaged and weights updated.
    shares
        Shares of the samples, by replica.
    """

    sample_s: FloatArray
    recomputed_s: FloatArray
    end_s: FloatArray
    shares: FloatArray


class Times:
    """Seconds of stages and messages, each computed once for the dynamic programme."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.sizes = np.pad(search.problem.output_bytes, (1, 0))
        self.line_s = cache(partial(line_s, search.problem))
        self.has_fixed = bool(search.fixed_s.any())
        self.of_replicas = cache(self._replicas)
        self.samples_s = cache(self._samples_s)
        self.stage_s = cache(self._stage_s)
        self.cut_s = cache(self._cut_s)

    def replicas(self, nodes: tuple[int, ...], samples: int) -> Replicas:
        """Seconds of replicas with micro-batches of this many samples."""
        return self.of_replicas(nodes, samples if self.has_fixed else 1)

    def _replicas(self, nodes: tuple[int, ...], samples: int) -> Replicas:
        problem, rows = self.search.problem, list(nodes)
        sums = problem.sums
        forward_s = sums.forward_s[rows] + sums.forward_fixed_s[rows] / samples
        backward_s = sums.backward_s[rows] + sums.backward_fixed_s[rows] / samples
        end_s = _between(sums.update_s[rows]).max(axis=0)
        if len(nodes) > 1:
            lines = [self.line_s(*pair) for pair in permutations(nodes, 2)]
            fixed_s, byte_s = (max(values) for values in zip(*lines, strict=True))
            share_s = fixed_s + byte_s * _between(sums.param_bytes) / len(nodes)
            end_s += len(ROUNDS) * share_s
        speeds = 1 / np.maximum((forward_s + backward_s)[:, -1], 1e-300)
        return Replicas(
            _together(forward_s + backward_s),
            _together(2 * forward_s + backward_s),
            end_s,
            speeds / speeds.sum(),
        )

    def _stage_s(self, nodes: tuple[int, ...], samples: int, depth: int) -> FloatArray:
        """Seconds of a micro-batch by layers; infinite where it does not fit."""
        search, replicas, count = self.search, self.replicas(nodes, samples), len(nodes)
        if samples < count:
            return np.full_like(replicas.sample_s, math.inf)
        each = math.ceil(samples / count) * count if search.equal else samples
        seconds = each * replicas.sample_s
        if search.needed is None:
            return seconds
        for node, share in zip(nodes, np.ceil(samples * replicas.shares - 1e-9), strict=True):
            fitting = search.frontier(node, int(share), depth, recompute=False)
            recomputing = search.frontier(node, int(share), depth, recompute=True)
            longer_s = np.where(recomputing, each * replicas.recomputed_s, math.inf)
            seconds = np.where(fitting, seconds, np.maximum(seconds, longer_s))
        return seconds

    def _samples_s(self, nodes: tuple[int, ...]) -> float:
        """Seconds in which links carry the samples of a step to the nodes of the first stage."""
        problem = self.search.problem
        each_bytes = problem.batch * problem.sample_bytes / len(nodes)
        sent = {
            (owner, node): [each_bytes * share]
            for owner, share in (problem.owners or {}).items()
            for node in nodes
            if owner != node
        }
        return busiest_s(problem, sent)

    def _cut_s(self, source: int, target: int, rows: float) -> FloatArray:
        """Seconds of a message of these samples to the next stage and of one back, by cut."""
        fixed_s, byte_s = np.add(self.line_s(source, target), self.line_s(target, source))
        return np.asarray(fixed_s + byte_s * rows * self.sizes)


class Floor:
    """Lower bound on the seconds of a step of a partition, for any schedule and samples.

    A first micro-batch comes through the stages before each, and the last one goes back through
    them; between the two, the stage passes all, in as long as if its replicas ended together. The
    links to the first stage carry all samples. It is below `bound_s`, and takes no plan.
    """

    def __init__(self, times: Times, samples: int) -> None:
        self.times, self.samples = times, samples
        self.problem = times.search.problem
        self.sizes = self.problem.output_bytes.tolist()
        self.of_group = cache(self._of_group)
        self.of_cut = cache(self._of_cut)

    def __call__(self, partition: Partition) -> float:
        """Least seconds of a step."""
        batch, trained = self.problem.batch, self.problem.first_trained
        first, way_s = 0, 0.0
        last_stage = len(partition.lasts) - 1
        # Of several nodes it is not known how they will share the samples.
        sends = self.problem.owners and len(partition.groups[0]) == 1
        longest_s = self.times.samples_s(partition.groups[0]) if sends else 0.0
        for number, (last, nodes) in enumerate(zip(*partition, strict=True)):
            sample_s, first_s = self.of_group(nodes)
            longest_s = max(longest_s, way_s + batch * sample_s[first][last])
            if number < last_stage:
                ahead_s, behind_s = self.of_cut(nodes, partition.groups[number + 1])
                size = self.sizes[last - 1]
                way_s += first_s[first][last] + ahead_s[0] + size * ahead_s[1]
                way_s += behind_s[0] + size * behind_s[1] if last >= trained else 0.0
            first = last
        return longest_s

    def _of_group(self, nodes: tuple[int, ...]) -> tuple[list[list[float]], list[list[float]]]:
        """Seconds of a sample on all replicas, and of the fewest samples that a replica may have.

        Both are by layers l + 1 to l', forward and backward.
        """
        sample_s = self.times.replicas(nodes, self.samples).sample_s
        fewest = self.samples if len(nodes) == 1 else 1
        sums, rows = self.problem.sums, list(nodes)
        first_s = sum(
            _between(fewest * each[rows] + fixed[rows]).min(axis=0)
            for each, fixed in (
                (sums.forward_s, sums.forward_fixed_s),
                (sums.backward_s, sums.backward_fixed_s),
            )
        )
        return sample_s.tolist(), np.asarray(first_s).tolist()

    def _of_cut(
        self, before: tuple[int, ...], after: tuple[int, ...]
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Fixed seconds, and seconds by bytes of a sample, of the fastest message each way."""
        rows = self.samples if len(before) == len(after) == 1 else 1
        lines = [
            [self.times.line_s(*pair) for pair in product(*ends)]
            for ends in ((before, after), (after, before))
        ]
        ahead_s, behind_s = (
            (min(fixed_s for fixed_s, _ in ways), rows * min(byte_s for _, byte_s in ways))
            for ways in lines
        )
        return ahead_s, behind_s


def line_s(problem: Problem, source: int, target: int) -> tuple[float, float]:
    """Fixed seconds of a message, and seconds of each byte."""
    fixed_s = least_arrival_s(problem, source, target, 0.0)
    if fixed_s == math.inf:
        return math.inf, 0.0
    return fixed_s, (least_arrival_s(problem, source, target, 1e9) - fixed_s) / 1e9


def _between(sums: FloatArray) -> FloatArray:
    """Sums over layers l + 1 to l' from sums over layers 1 to l; 0 where l' <= l."""
    return np.maximum(sums[..., None, :] - sums[..., :, None], 0.0)


def _together(sums: FloatArray) -> FloatArray:
    """Seconds of a sample on nodes that share samples so that all end together."""
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (1 / _between(sums)).sum(axis=0))


def dynamic(
    times: Times,
    order: tuple[int, ...],
    variant: Variant,
    head: int = 0,
    *,
    most: int | None = None,
) -> list[Partition]:
    """Partitions along an order of nodes, the best one of each number of stages.

    A dynamic programme in the form of PipeDream's (Narayanan et al. 2019, Sec. 3.1), from the last
    stage to the first. A(k, l, p), seconds of the layers behind l in k stages on the nodes from
    place p on, is

        A(0, L, p) = 0
        A(k, l, p) = min over l' > l and q > p of
            max( T(l, l', p, q) + max( C(l', q) + A(k - 1, l', q),  M C(l', q) / 2 ),
                 M T(l, l', p, q) + E(l, l', p, q) )

    with T the seconds of a micro-batch in layers l + 1 to l' on nodes p to q - 1, C those of its
    messages behind layer l' and back, and E those of the step's end: gradients and update. The
    first term is the way of a micro-batch to the slowest stage and back, and what that computes,
    the second a stage that never waits. PipeDream, which does not flush, has no first term. Nodes
    at either end of the order may be left out.
    With a `head`, the layers up to it are on the nodes of the last stage. With `most`, stages have
    memory for that many micro-batches in flight, but are taken to be as fast as with all.
    """
    search = times.search
    problem, count = search.problem, variant.microbatches
    layers, nodes = problem.layers, len(order)
    samples = problem.batch // count
    best = np.full((layers + 1, nodes + 1), math.inf)  # A(k - 1, l, p)
    best[layers] = 0.0
    choices: list[dict[tuple[int, int], tuple[int, int]]] = []
    partitions: list[Partition] = []
    least: list[float] = []  # by number of stages
    stretches = list(combinations(range(nodes + 1), 2))  # places p and q of an order
    groups = {(p, q): tuple(sorted(order[p:q])) for p, q in stretches}
    for stages in range(1, min(nodes, layers) + 1):
        depth = min(variant.depth(stages), problem.batch if most is None else most)
        longer = np.full_like(best, math.inf)
        choice: dict[tuple[int, int], tuple[int, int]] = {}
        reached = np.isfinite(best).any(axis=0)
        for p, q in stretches:
            if not reached[q]:
                continue
            group = groups[p, q]
            stage_s = times.stage_s(group, samples, depth if search.needed else 0)
            if stages == 1:
                stage_s = stage_s + samples * times.replicas(group, samples).sample_s[0, head]
            ahead_s = best[:, q]
            if stages > 1:
                cut_s = times.cut_s(order[q - 1], order[q], samples / (q - p))
                ahead_s = np.maximum(ahead_s + cut_s, count * cut_s / 2)
            end_s = times.replicas(group, samples).end_s
            total_s = np.maximum(stage_s + ahead_s, count * stage_s + end_s)
            takes_samples = stages == 1 or not head  # with a head, the last nodes are the first
            if problem.owners and takes_samples:
                first_stage = slice(None) if head else slice(1)
                total_s[first_stage] = np.maximum(total_s[first_stage], times.samples_s(group))
            total_s = np.where(np.isfinite(ahead_s) & _above(layers), total_s, math.inf)
            where = total_s.argmin(axis=1)
            least_s = total_s[np.arange(layers + 1), where]
            for first in np.flatnonzero(least_s < longer[:, p]).tolist():
                choice[first, p] = int(where[first]), q
            longer[:, p] = np.minimum(longer[:, p], least_s)
        best = longer
        choices.append(choice)
        place = int(best[head].argmin())
        if best[head, place] < math.inf and (stages > 1 or not head):
            partitions.append(_partition(groups, choices, head, place))
            least.append(float(best[head, place]))
            if least.index(min(least)) < len(least) - WORSE:
                break
    return partitions


@cache
def _above(layers: int) -> NDArray[np.bool_]:
    return np.triu(np.ones((layers + 1, layers + 1), dtype=bool), 1)


def _partition(
    groups: dict[tuple[int, int], tuple[int, ...]],
    choices: list[dict[tuple[int, int], tuple[int, int]]],
    head: int,
    place: int,
) -> Partition:
    lasts, nodes, last = [], [], head
    for choice in reversed(choices):
        last, following = choice[last, place]
        lasts.append(last)
        nodes.append(groups[place, following])
        place = following
    if head:
        return Partition((head, *lasts), (nodes[-1], *nodes))
    return Partition(tuple(lasts), tuple(nodes))


def pipedream_stages(problem: Problem) -> list[tuple[int, int, int]]:
    """First and last layer and replicas of each stage of PipeDream's plan.

    The recurrence of `planners.pipedream`, over the layers 1 to j and m machines.
    """
    check_kind("problem", problem, Problem, "a pipelines.Problem")
    layers, machines = problem.layers, problem.nodes
    sums = problem.sums
    fixed_s = sums.forward_fixed_s + sums.backward_fixed_s
    seconds = (problem.batch * (sums.forward_s + sums.backward_s) + fixed_s).max(axis=0)
    weights, sent = sums.param_bytes, problem.batch * problem.output_bytes
    byte_s = max((line_s(problem, *ends)[1] for ends in problem.links), default=0.0)

    def stage_s(first: int, last: int, replicas: int) -> float:  # layers first + 1 to last
        compute_s = seconds[last] - seconds[first]
        all_reduce_s = 4 * (replicas - 1) / replicas * (weights[last] - weights[first]) * byte_s
        return float(max(compute_s, all_reduce_s)) / replicas

    # A(j, m), and the last layer and the machines of the stages before the last one
    best = {
        (j, m): (stage_s(0, j, m), 0, 0)
        for j in range(1, layers + 1)
        for m in range(1, machines + 1)
    }
    for m in range(2, machines + 1):
        for j in range(2, layers + 1):
            for i in range(1, j):
                for replicas in range(1, m):
                    slowest_s = max(
                        best[i, m - replicas][0],
                        2 * sent[i - 1] * byte_s,
                        stage_s(i, j, replicas),
                    )
                    if slowest_s < best[j, m][0]:
                        best[j, m] = slowest_s, i, m - replicas
    stages, j, m = [], layers, machines
    while j:
        _, i, before = best[j, m]
        stages.append((i + 1, j, m - before))
        j, m = i, before
    return stages[::-1]
