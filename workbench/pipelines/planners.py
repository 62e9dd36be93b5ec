"""Planners: the fastest pipeline that fits, by its layers, nodes and micro-batches.

`pipeline` searches stages of consecutive layers, each on one or more nodes, each node in one stage,
as PipeDream (Narayanan et al. 2019), DAPPLE (Fan et al. 2021) and Alpa (Zheng et al. 2022) do; all
micro-batches that divide the batch; GPipe (Huang et al. 2019), and 1F1B (Narayanan et al. 2021)
with S - s micro-batches in flight, with 2 (S - s) - 1 (Asteroid, Ye et al. 2024) and with
4 (S - s) - 3. For a weight that the last layer shares with an earlier one, the layers up to that
may also be a first stage on the nodes of the last, which then keeps all micro-batches in flight.
Two things follow from these and are not searched: a stage's samples go one by one to the replica
that ends first (`split`), and a stage recomputes, or else keeps fewer micro-batches in flight, only
where it needs to (`Search.plans`).

>>> from workbench.clusters import Link
>>> problem = Problem(
...     forward_s=[[1, 1], [1, 1]], backward_s=[[2, 2], [2, 2]], update_s=[[0, 0], [0, 0]],
...     param_bytes=[1, 1], output_bytes=[1, 1], batch=8,
...     links={(0, 1): Link(1e3), (1, 0): Link(1e3)},
... )
>>> plan = pipeline(problem)
>>> [(stage.first, stage.last, stage.nodes) for stage in plan.stages], plan.microbatches
([(1, 2, (0, 1))], 1)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import combinations, islice, pairwise

import numpy as np

from workbench.pipelines.bounds import bound_s
from workbench.pipelines.costs import least_arrival_s
from workbench.pipelines.dynamic import Floor, Times, dynamic, pipedream_stages
from workbench.pipelines.longest_path import iteration
from workbench.pipelines.partitions import (
    Partition,
    Search,
    Variant,
    heads,
    partitions,
    split,
    variants,
)
from workbench.pipelines.problems import Problem
from workbench.pipelines.schedules import SCHEDULES, Plan, Stage
from workbench.utils.checks import UserError, check_name, check_whole, listed

Planner = Callable[[Problem], Plan]

COMPLETE = 3_000
"""Partitions up to which `pipeline` looks at all of them."""
TRIES = 100
"""Plans that `pipeline` times, and orders of nodes, where there are more partitions than that."""
PATIENCE = 6
"""Plans in a row that it times in vain before it looks elsewhere."""
ROUNDING = 1e-12


class _Best:
    """The fastest plan so far, and how many were timed."""

    def __init__(self, search: Search, least_stages: int = 1) -> None:
        self.search, self.least_stages, self.tries = search, least_stages, 0
        self.plan: Plan | None = None
        self.seconds = math.inf
        self.at: tuple[Partition, Variant] | None = None
        self.seen: set[tuple[Partition, Variant]] = set()

    def offer(self, candidates: Iterable[tuple[Partition, Variant]], tries: int | None) -> bool:
        """Time candidates, the most promising first; return whether one is the fastest so far."""
        problem, before_s = self.search.problem, self.seconds
        bounds: list[tuple[float, int, Plan, tuple[Partition, Variant]]] = []
        for candidate in candidates:
            enough = len(candidate[0].lasts) >= self.least_stages
            if enough and candidate not in self.seen:
                self.seen.add(candidate)
                for plan in self.search.plans(*candidate):
                    bound = bound_s(problem, plan)
                    if bound < self.seconds:
                        bounds.append((float(f"{bound:.12g}"), len(bounds), plan, candidate))
        vain = 0
        for bound, _, plan, candidate in sorted(bounds):
            enough = tries is not None and (self.tries >= tries or vain >= PATIENCE)
            if bound >= self.seconds or enough:
                break
            self.tries += 1
            vain += 1
            seconds = iteration(problem, plan).total_s
            if seconds < self.seconds * (1 - ROUNDING):
                self.plan, self.seconds, self.at, vain = plan, seconds, candidate, 0
        return self.seconds < before_s

    def simplest(self, known: Sequence[Variant]) -> Plan:
        """The plan with the fewest micro-batches among its variants that are as fast."""
        assert self.plan is not None
        assert self.at is not None
        for variant in known:
            for plan in self.search.plans(self.at[0], variant):
                seconds = iteration(self.search.problem, plan).total_s
                if seconds <= self.seconds * (1 + ROUNDING):
                    return plan
        return self.plan


def pipeline(
    problem: Problem,
    *,
    tries: int = TRIES,
    schedules: Collection[str] = SCHEDULES,
    least_stages: int = 1,
) -> Plan:
    """The fastest plan that fits, of those that the module names.

    Plans are judged by `iteration`. With up to `COMPLETE` partitions, the best of all is found: a
    plan is left out only if its `bound_s` is no better. With more, candidates come from a dynamic
    programme along orders of the nodes (`dynamic` has its recurrence; equal nodes have one order),
    and from `pipedream`; then cuts are moved and nodes swapped, until nothing gets faster or
    `tries` plans have been timed. Only these `schedules` are tried, and plans of `least_stages` or
    more.

    Raises UserError: no plan fits into the memory of the nodes.
    """
    check_whole("tries", tries, 1)
    check_whole("least_stages", least_stages, 1)
    for schedule in (names := listed("schedules", schedules, f"give some of {SCHEDULES}")):
        check_name("schedule", schedule, SCHEDULES)
    if not names:
        raise UserError(f"schedules is empty; give some of {SCHEDULES}")
    search, known = Search(problem), variants(problem.batch, names)
    times = Times(search)
    best = _Best(search, least_stages)
    starts = [tuple(range(problem.nodes))] if search.equal else _orders(search)
    if search.equal:
        theirs = _pipedream_partition(problem)
        best.offer(((theirs, each) for each in known), tries)
    ends = (0, *heads(problem))
    first = "1f1b" if "1f1b" in names else "gpipe"
    shallow = [each for each in known if each.schedule == first and each.lead == 1]
    best.offer(_along(times, starts, shallow, ends), tries)
    if best.at is None:  # nothing fits unless fewer micro-batches are in flight
        best.offer(_along(times, starts, shallow, ends, most=1), tries)
    order = starts[0] if best.at is None else _order(problem, best.at[0])
    best.offer(_along(times, [order], known, ends), tries)
    every = list(islice(partitions(problem), COMPLETE + 1))
    if len(every) <= COMPLETE:
        for variant in known:
            floor_s = Floor(times, problem.batch // variant.microbatches)
            worth = (each for each in every if floor_s(each) < best.seconds)
            best.offer(((partition, variant) for partition in worth), None)
    else:
        while best.at is not None and best.tries < tries:
            if best.offer(_moves(search, known, *best.at), tries):
                continue
            if search.equal or not _swapped(times, best, tries):
                break
    if best.plan is None:
        raise UserError(
            "no pipeline fits into the memory of the nodes; give more memory, more nodes or a "
            "smaller batch"
        )
    return best.simplest(known)


def _along(
    times: Times,
    orders: Iterable[tuple[int, ...]],
    known: Sequence[Variant],
    ends: Sequence[int],
    most: int | None = None,
) -> Iterator[tuple[Partition, Variant]]:
    for order in orders:
        along = cache(partial(dynamic, times, order, most=most))
        for variant in known:
            # Without limits of memory, micro-batches in flight make no difference to it.
            limited = times.search.needed is not None
            alike = variant if limited else Variant(variant.microbatches, "1f1b", 1)
            for head in ends:
                for partition in along(alike, head):
                    yield partition, variant


def _orders(search: Search) -> list[tuple[int, ...]]:
    """Orders of unlike nodes: by speed, by memory, and along fast links from each node."""
    nodes, whole_s = range(search.problem.nodes), (search.pass_s + search.fixed_s)[:, -1]
    by_speed = sorted(nodes, key=lambda node: whole_s[node])
    by_memory = sorted(nodes, key=lambda node: -search.limits[node])
    chains = []
    for first in by_speed:
        near, left = [first], [node for node in by_speed if node != first]
        while left:
            left.sort(key=lambda node: least_arrival_s(search.problem, near[-1], node, 1e6))
            near.append(left.pop(0))
        chains.append(near)
    several = (by_speed, by_memory, chains[0])
    orders = [tuple(o) for order in several for o in (order, order[::-1])]
    return list(dict.fromkeys((*orders, *map(tuple, chains))))


def _swapped(times: Times, best: _Best, tries: int) -> bool:
    """Swap nodes until a plan gets faster; return whether one did."""
    assert best.at is not None
    (lasts, groups), variant = best.at
    head = lasts[0] if len(lasts) > 1 and groups[0] == groups[-1] else 0
    for order in _swaps(best.search.problem, best.at[0]):
        if best.tries >= tries:
            return False
        best.tries += 1
        if best.offer(_along(times, [order], [variant], [head]), tries):
            return True
    return False


def _moves(
    search: Search, known: Iterable[Variant], partition: Partition, variant: Variant
) -> Iterator[tuple[Partition, Variant]]:
    """Neighbours: a cut or a node moved by one, another variant, or two nodes swapped."""
    problem, equal, (lasts, groups) = search.problem, search.equal, partition
    for number, last in enumerate(lasts[:-1]):
        for moved in (last - 1, last + 1):
            low = lasts[number - 1] if number else 0
            if low < moved < lasts[number + 1]:
                cuts = (*lasts[:number], moved, *lasts[number + 1 :])
                yield Partition(cuts, groups), variant
    single = groups[0] != groups[-1] or len(groups) == 1
    for number in range(len(groups) - 1) if single else ():
        before, after = groups[number : number + 2]
        for left, right in ((before[:-1], (before[-1], *after)), ((*before, after[0]), after[1:])):
            if left and right:
                moved_groups = (*groups[:number], left, right, *groups[number + 2 :])
                yield Partition(lasts, moved_groups), variant
    for other in known:
        yield partition, other
    for a, b in combinations(range(0 if equal else problem.nodes), 2):
        swap = {a: b, b: a}
        yield Partition(lasts, tuple(tuple(swap.get(n, n) for n in g) for g in groups)), variant


def _order(problem: Problem, partition: Partition) -> tuple[int, ...]:
    """An order of all nodes along which the partition lies: unused nodes, then by stage."""
    lasts, groups = partition
    if len(lasts) > 1 and groups[0] == groups[-1]:
        groups = groups[1:]
    used = [node for group in groups for node in group]
    return (*(node for node in range(problem.nodes) if node not in used), *used)


def _swaps(problem: Problem, partition: Partition) -> Iterator[tuple[int, ...]]:
    """Orders with two nodes swapped, the unused ones first."""
    order = _order(problem, partition)
    for a, b in combinations(range(len(order)), 2):
        swapped = list(order)
        swapped[a], swapped[b] = order[b], order[a]
        yield tuple(swapped)


def pipedream(problem: Problem) -> Plan:
    """PipeDream's plan, which ignores memory and the end of a step (Harlap et al. 2018, Sec. 3.2).

    Their recurrence, literally, with T_l the seconds of layer l forward and backward, w_l its
    bytes, a_i the bytes that cross the cut behind layer i, and B bytes per second:

        A(j, m) = min over i < j and m' < m of  max( A(i, m - m'),  2 a_i / B,  T(i+1..j, m') )
        T(i..j, m) = max( sum of T_l,  4 (m - 1) / m  sum of w_l / B ) / m

    and A(j, m) = T(1..j, m) for one stage. A stage has as many replicas as make the slowest stage
    fastest; each replica has other minibatches, of `problem.batch` samples here. It is for equal
    nodes: of unlike ones it takes the slowest, and the slowest link. As a plan of a step, a
    micro-batch is split over the replicas of a stage, and their number is the one that `iteration`
    finds fastest with 1F1B.
    """
    lasts, groups = _pipedream_partition(problem)
    firsts = [1, *(last + 1 for last in lasts[:-1])]
    most, best = max(map(len, groups)), None
    for count in (m for m in range(1, problem.batch // most + 1) if problem.batch % m == 0):
        samples = problem.batch // count
        shares = [split([1.0] * len(nodes), samples) for nodes in groups]
        stages = [
            Stage(first, last, tuple(zip(nodes, share, strict=True)))
            for first, last, nodes, share in zip(firsts, lasts, groups, shares, strict=True)
        ]
        plan = Plan(stages=tuple(stages), microbatches=count)
        seconds = iteration(problem, plan).total_s
        if best is None or seconds < best[0]:
            best = seconds, plan
    if best is None:
        raise UserError(
            f"PipeDream's plan has {most} replicas in a stage; the batch of {problem.batch} has "
            "fewer samples"
        )
    return best[1]


def _pipedream_partition(problem: Problem) -> Partition:
    stages = pipedream_stages(problem)
    used = np.cumsum([0, *(replicas for _, _, replicas in stages)]).tolist()
    groups = tuple(tuple(range(low, high)) for low, high in pairwise(used))
    return Partition(tuple(last for _, last, _ in stages), groups)


PLANNERS: dict[str, Planner] = {"pipeline": pipeline, "pipedream": pipedream}
"""Planners by name."""
