"""Search space of `planners.pipeline`: partitions and variants, and the plans that they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, permutations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.pipelines.costs import fits, of_layers
from workbench.pipelines.problems import Problem, Shared
from workbench.pipelines.schedules import SCHEDULES, Plan, Recompute, Stage
from workbench.utils.checks import check_kind

LEADS = (1, 2, 4)
"""Micro-batches that a stage has more in flight than the next: 2 is Asteroid's (Ye et al. 2024)."""

RECOMPUTE: tuple[Recompute, ...] = (False, True, "layers")
"""Ways in which a stage may recompute, in the order tried."""


class Partition(NamedTuple):
    """Layers and nodes of the stages, without samples.

    `lasts` has the last layer of each stage, `groups` the nodes of each stage.
    """

    lasts: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]


class Variant(NamedTuple):
    """A micro-batch count, a schedule, and what each stage has more in flight than the next.

    With a lead of 1, stage s of S has 1F1B's S - s micro-batches in flight, with a lead of k it has
    k (S - s) - k + 1.
    """

    microbatches: int
    schedule: str
    lead: int

    def depth(self, left: int) -> int:
        """Micro-batches in flight of a stage with `left` stages from it to the last."""
        if self.schedule == "gpipe":
            return self.microbatches
        return min(self.lead * (left - 1) + 1, self.microbatches)


def variants(batch: int, schedules: Collection[str] = SCHEDULES) -> list[Variant]:
    """All counts that divide the batch, with each schedule; with M = 1 all schedules are one."""
    return [
        Variant(count, schedule, lead)
        for count in range(1, batch + 1)
        if batch % count == 0
        for schedule, lead in (*(("1f1b", lead) for lead in LEADS), ("gpipe", 1))
        if (schedule in schedules if count > 1 else (schedule, lead) == ("1f1b", 1))
    ]


def split(
    seconds: Sequence[float], samples: int, fixed_s: Sequence[float] | None = None
) -> list[int]:
    """Give samples one by one to the replica that ends first with it; return those of each.

    `seconds` are those of a sample on each replica, `fixed_s` those beside all samples.

    >>> split([1.0, 2.0], samples=6)
    [4, 2]
    """
    counts, fixed_s = [0] * len(seconds), fixed_s or [0.0] * len(seconds)
    for _ in range(samples):
        ends_s = [
            (count + 1) * each + fixed
            for count, each, fixed in zip(counts, seconds, fixed_s, strict=True)
        ]
        counts[ends_s.index(min(ends_s))] += 1
    return counts


def partitions(problem: Problem) -> Iterator[Partition]:
    """All partitions: cuts, and ordered groups of nodes, or sizes of groups if nodes are equal."""
    equal, layers = equal_nodes(problem), problem.layers
    for used in range(1, problem.nodes + 1):
        for count in range(1, min(used, layers) + 1):
            for ends in combinations(range(1, used), count - 1):
                for groups in _groups(problem.nodes, (*ends, used), equal):
                    for cuts in combinations(range(1, layers), count - 1):
                        yield Partition((*cuts, layers), groups)
                    for head in heads(problem):
                        for cuts in combinations(range(head + 1, layers), count - 1):
                            if count > 1:
                                wrapped = (groups[-1], *groups)
                                yield Partition((head, *cuts, layers), wrapped)


def _groups(nodes: int, ends: Sequence[int], equal: bool) -> Iterator[tuple[tuple[int, ...], ...]]:
    starts = (0, *ends[:-1])
    for order in [tuple(range(ends[-1]))] if equal else permutations(range(nodes), ends[-1]):
        groups = tuple(order[a:b] for a, b in zip(starts, ends, strict=True))
        if all(list(group) == sorted(group) for group in groups):
            yield groups


def heads(problem: Problem) -> list[int]:
    """Last layers of a first stage that shares a weight, and so may share nodes, with the last."""
    last = problem.layers
    return sorted({min(w.layers) for w in problem.tied if min(w.layers) < max(w.layers) == last})


def equal_nodes(problem: Problem) -> bool:
    """Whether the nodes are equal, and any two could be swapped in the network."""
    sums = problem.sums
    tables = (*sums[:-1], problem.limits_bytes)
    if not all((table == table[0]).all() for table in tables):
        return False
    return all(_symmetric(problem, node) for node in range(1, problem.nodes))


def _symmetric(problem: Problem, node: int) -> bool:
    """Whether links, owners and capacities stay the same if node 0 and this one are swapped."""
    swapped = {0: node, node: 0}

    def moved(pair: tuple[int, int]) -> tuple[int, int]:
        return swapped.get(pair[0], pair[0]), swapped.get(pair[1], pair[1])

    owners = problem.owners or {}
    links = problem.links
    capacities = Counter(problem.shared)
    return (
        all(links.get(moved(ends)) == link for ends, link in links.items())
        and all(owners.get(swapped.get(owner, owner)) == owners[owner] for owner in owners)
        and capacities
        == Counter(Shared(bps, frozenset(map(moved, pairs))) for bps, pairs in problem.shared)
    )


def _plan(
    stages: tuple[Stage, ...],
    variant: Variant,
    in_flight: Sequence[int],
    recompute: Sequence[Recompute],
) -> Plan:
    return Plan(
        stages=stages,
        microbatches=variant.microbatches,
        schedule=variant.schedule,
        in_flight=() if variant.schedule == "gpipe" else tuple(in_flight),
        recompute=tuple(recompute),
    )


class Search:
    """Plans of a problem by their partition, and values that are computed once for all of them."""

    def __init__(self, problem: Problem) -> None:
        check_kind("problem", problem, Problem, "a pipelines.Problem")
        self.problem = problem
        sums = problem.sums
        self.pass_s = sums.forward_s + sums.backward_s
        self.fixed_s = sums.forward_fixed_s + sums.backward_fixed_s
        self.split = cache(self._split)
        self.needed = None if problem.needed is None else cache(problem.needed)
        self.fitting = cache(self._fitting)
        self.limits = problem.limits_bytes
        self.equal = equal_nodes(problem)

    def _split(self, first: int, last: int, nodes: tuple[int, ...], samples: int) -> list[int]:
        rows = list(nodes)
        seconds, fixed_s = (
            of_layers(sums[rows], first, last).tolist() for sums in (self.pass_s, self.fixed_s)
        )
        return split(seconds, samples, fixed_s)

    def stages(self, partition: Partition, samples: int) -> tuple[Stage, ...] | None:
        """Stages with samples; None where a node would have none."""
        stages, first = [], 1
        for last, nodes in zip(*partition, strict=True):
            if len(nodes) > samples:
                return None
            counts = self.split(first, last, nodes, samples)
            if not all(counts):
                return None
            stages.append(Stage(first, last, tuple(zip(nodes, counts, strict=True))))
            first = last + 1
        return tuple(stages)

    def plans(self, partition: Partition, variant: Variant) -> Iterator[Plan]:
        """Plans of a partition that fit: recomputing, or with less in flight, only where needed."""
        count = variant.microbatches
        stages = self.stages(partition, self.problem.batch // count)
        if stages is None:
            return
        depths = [variant.depth(left) for left in range(len(stages), 0, -1)]
        if len(stages) > 1 and stages[0].nodes == stages[-1].nodes:
            depths[0] = count  # the last nodes send ahead where they would wait
        if self.needed is None:
            yield _plan(stages, variant, depths, ())
        elif stages[0].nodes != stages[-1].nodes or len(stages) == 1:
            if fitting := self._fitted(stages, variant, depths):
                yield _plan(stages, variant, *fitting)
        else:
            yield from self._wrapped(_plan(stages, variant, depths, ()), depths)

    def _wrapped(self, plan: Plan, depths: list[int]) -> list[Plan]:
        """Plans that fit where the first and the last stage share the memory of their nodes."""
        gpipe = plan.schedule == "gpipe"
        for most in range(depths[0], depths[0] - 1 if gpipe else 0, -1):
            held = [min(depth, most) for depth in depths]
            between: list[Recompute] = [
                next((way for way in RECOMPUTE if self._fits(stage, depth, way)), True)
                for stage, depth in zip(plan.stages[1:-1], held[1:-1], strict=True)
            ]
            for ways in (RECOMPUTE[:2], RECOMPUTE):
                tried = [
                    replace(
                        plan,
                        recompute=(first, *between, last),
                        in_flight=() if gpipe else tuple(held),
                    )
                    for first, last in product(ways, repeat=2)
                ]
                if fitting := [each for each in tried if fits(self.problem, each)]:
                    return fitting
        return []

    def _fitted(
        self, stages: Sequence[Stage], variant: Variant, depths: Sequence[int]
    ) -> tuple[list[int], list[Recompute]] | None:
        """Micro-batches in flight of each stage, and how it recomputes; None if one cannot fit."""
        recompute, in_flight, most = list[Recompute](), list[int](), variant.microbatches
        for stage, depth in zip(stages, depths, strict=True):
            fewer = range(min(depth, most), 0, -1)
            options = [(count, way) for count in fewer for way in RECOMPUTE]
            if variant.schedule == "gpipe" or stage.last < self.problem.first_trained:
                options = options[: len(RECOMPUTE)]
            chosen = next((each for each in options if self._fits(stage, *each)), None)
            if chosen is None:
                return None
            in_flight.append(chosen[0])
            recompute.append(chosen[1])
            if stage.last >= self.problem.first_trained:
                most = chosen[0]
        return in_flight, recompute

    def _fits(self, stage: Stage, depth: int, recompute: Recompute) -> bool:
        assert self.needed is not None
        if stage.last < self.problem.first_trained:
            depth = 1
        return all(
            self.needed(stage.first, stage.last, samples, depth, recompute) <= self.limits[node]
            for node, samples in stage.samples
        )

    def frontier(
        self, node: int, samples: int, depth: int, *, recompute: bool
    ) -> NDArray[np.bool_]:
        """Whether layers l + 1 to l' fit on a node, with recomputation or without it.

        Shape (L + 1, L + 1).
        """
        limit, ways = float(self.limits[node]), RECOMPUTE[1:] if recompute else RECOMPUTE[:1]
        fits: NDArray[np.bool_] = np.any(
            [self.fitting(limit, samples, depth, way) for way in ways], axis=0
        )
        return fits

    def _fitting(
        self, limit: float, samples: int, depth: int, recompute: Recompute
    ) -> NDArray[np.bool_]:
        # A stage with more layers than one that does not fit is taken not to fit.
        layers = self.problem.layers
        fitting = np.ones((layers + 1, layers + 1), dtype=bool)
        if self.needed is None or self.needed(1, layers, samples, depth, recompute) <= limit:
            return fitting
        first = 1
        for last in range(1, layers + 1):
            while first <= last and self.needed(first, last, samples, depth, recompute) > limit:
                first += 1
            fitting[: first - 1, last] = False
        return fitting
