"""HierTrain's optimal policy, exact in whole samples (Liu et al. 2020, V).

The paper solves a linear programme for every mapping and every m_s <= m_l and rounds its answer.
Here all of these choices are bounded from below at once, and tried from the lowest bound on until
the bounds exceed the best policy so far. A choice is tried with every b_l that a second bound
leaves, and, for each, with the few b_s that can be best.

At a fixed b_l, Eqs. (7)-(11) do not depend on how the rest is split, and Eqs. (5) and (6) are
maxima of a branch that falls with b_s (worker o's), one that rises (worker s's) and a constant one
(worker l's). As long as o and s both have samples, so that the same messages are sent, the sum is
convex and piecewise linear in b_s: its least value over whole numbers lies next to a point where
two branches meet, or at an end. Without samples of o or s some overheads are saved, so the ends,
b_s = 0 and b_s = B - b_l, are tried in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from workbench.clusters import Link
from workbench.hiertrain.costs import TIERS, FloatArray, Hybrid, Problem, check_problem

IntArray = NDArray[np.int64]

ORDERS = tuple(permutations(TIERS))  # the tiers of o, s, l
DEVICE = TIERS.index("device")
# Sums in another order differ by about N units in the last place; bounds round a little more.
SAME, SLACK = 1 + 1e-12, 1 + 1e-9
FIRST, MOST_SPLITS = 4, 200_000  # choices tried first, and splits bounded together


def hiertrain(problem: Problem) -> Hybrid:
    """Fastest split of layers and samples over device, edge and cloud.

    Of policies equally fast (to some parts in 10^12, since sums round) the one with the fewest
    tiers, then the smallest m_l, m_s, b_l, b_s, then the mapping that comes first in `ORDERS`.

    Deviation: the paper rounds the linear programme's answer, which can miss the best split; this
    one is optimal over all mappings, tasks and whole samples.
    """
    check_problem(problem)
    tasks, batch = all_tasks(problem), problem.batch
    bound_s = phase_bound_s(tasks, batch)
    by_bound = np.argsort(bound_s, kind="stable")
    tasks, bound_s = tasks[by_bound], bound_s[by_bound]
    least_s, start, size = np.inf, 0, FIRST
    tried = []  # rows of seconds, place among the tasks, b_s, b_l that were the best so far
    while start < len(bound_s) and bound_s[start] <= least_s * SLACK:
        place, b_s, b_l, duration_s = try_splits(tasks[start : start + size], batch, least_s)
        least_s = min(least_s, duration_s.min(initial=np.inf))
        good = duration_s <= least_s * SAME
        tried.append(np.stack([duration_s, place + start, b_s, b_l])[:, good])
        start, size = start + size, min(2 * size, max(FIRST, MOST_SPLITS // (batch + 1)))
    duration_s, place, b_s, b_l = np.concatenate(tried, axis=1)
    fastest = duration_s <= least_s * SAME
    tasks, b_s, b_l = tasks[place[fastest].astype(int)], b_s[fastest], b_l[fastest]
    tiers = np.add(tasks.m_s > 0, tasks.m_l > 0, dtype=int)
    best = np.lexsort((tasks.order, b_s, b_l, tasks.m_s, tasks.m_l, tiers))[0]
    short, long = int(b_s[best]), int(b_l[best])
    m_s, m_l = int(tasks.m_s[best]), int(tasks.m_l[best])
    return Hybrid(ORDERS[tasks.order[best]], m_s, m_l, batch - short - long, short, long)


@dataclass(frozen=True, eq=False)
class Tasks:
    """K choices of a mapping, m_s and m_l, with what a split of the samples then takes.

    Each branch of the maxima of Eqs. (5)-(8) is seconds per sample (`slope_s`) times samples, plus
    the overheads of messages that are sent if there are samples (`setup_s`). Their rows: in Eqs.
    (5) and (6) those of workers o, s, l, in Eqs. (7) and (8) those of o, with the samples of s as
    well, and l.
    """

    order: IntArray  # place of the mapping in `ORDERS`, (K,)
    m_s: IntArray  # last layer of the short task, (K,)
    m_l: IntArray  # last layer of the long task, (K,)
    slope_s: FloatArray  # (K, 10)
    setup_s: FloatArray  # (K, 10)
    fixed_s: FloatArray  # what no split changes, Eqs. (9)-(11), (K,)

    def __getitem__(self, chosen: IntArray | slice) -> Tasks:
        return Tasks(*(getattr(self, field.name)[chosen] for field in fields(self)))


FORWARD_1, BACKWARD_1, FORWARD_2, BACKWARD_2 = ((0, 1, 2), (3, 4, 5), (6, 7), (8, 9))


def longest_s(tasks: Tasks, phase: tuple[int, ...], *samples: FloatArray) -> FloatArray:
    """Seconds of a phase: the longest of its branches, each with its samples. Shape (K, P)."""
    branches_s = [
        tasks.slope_s[:, row, None] * count + tasks.setup_s[:, row, None] * (count > 0)
        for row, count in zip(phase, samples, strict=True)
    ]
    longest: FloatArray = branches_s[0]
    for branch_s in branches_s[1:]:
        longest = np.maximum(longest, branch_s)
    return longest


def duration_s(tasks: Tasks, batch: int, b_s: FloatArray, b_l: FloatArray) -> FloatArray:
    """Seconds of an iteration (Eq. 12) of each choice under its splits, (K, P) or (1, P) each."""
    b_os = batch - b_l
    b_o = b_os - b_s
    total_s = tasks.fixed_s[:, None] + longest_s(tasks, FORWARD_1, b_o, b_s, b_l)
    total_s = total_s + longest_s(tasks, BACKWARD_1, b_o, b_s, b_l)
    total_s = total_s + longest_s(tasks, FORWARD_2, b_os, b_l)
    return total_s + longest_s(tasks, BACKWARD_2, b_os, b_l)


def phase_bound_s(tasks: Tasks, batch: int) -> FloatArray:
    """Lower bound of each choice: every phase balanced by itself, without overheads. (K,).

    A phase takes at least B over the sum of the workers' speeds.
    """
    with np.errstate(divide="ignore", over="ignore"):
        speed = 1 / tasks.slope_s
    speed[np.ix_(tasks.m_s == 0, [1, 4])] = 0.0
    speed[np.ix_(tasks.m_l == 0, [2, 5, 7, 9])] = 0.0
    phases = (FORWARD_1, BACKWARD_1, FORWARD_2, BACKWARD_2)
    bound_s = tasks.fixed_s
    for phase in phases:
        bound_s = bound_s + batch / speed[:, phase].sum(axis=1)
    return bound_s


def bound_by_l_s(tasks: Tasks, batch: int, b_l: FloatArray) -> FloatArray:
    """Lower bound of each choice at each b_l: o and s balanced in either phase. Shape (K, B+1)."""
    b_os = batch - b_l
    total_s = tasks.fixed_s[:, None] + longest_s(tasks, FORWARD_2, b_os, b_l)
    total_s = total_s + longest_s(tasks, BACKWARD_2, b_os, b_l)
    for o, s, l in (FORWARD_1, BACKWARD_1):  # noqa: E741
        with np.errstate(divide="ignore", over="ignore"):
            speed = 1 / tasks.slope_s[:, o] + np.where(tasks.m_s > 0, 1 / tasks.slope_s[:, s], 0)
        total_s = total_s + np.maximum(b_os / speed[:, None], tasks.slope_s[:, l, None] * b_l)
    return total_s


def try_splits(
    tasks: Tasks, batch: int, known_s: float
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Places among the choices, b_s, b_l and seconds of all splits that may be best. (R,) each.

    A choice and b_l whose bound exceeds `known_s` is left out; 14 values of b_s are tried of each
    of the others.
    """
    every_l = np.arange(batch + 1.0)
    possible = bound_by_l_s(tasks, batch, every_l) <= known_s * SLACK
    possible[:, 1:] &= (tasks.m_l > 0)[:, None]
    place, whole_l = np.nonzero(possible)
    chosen, b_l = tasks[place], every_l[whole_l]
    rest = batch - b_l
    # axes: choice and b_l, value of b_s
    meeting = [
        point for phase in (FORWARD_1, BACKWARD_1) for point in _meeting(chosen, phase, b_l, rest)
    ]
    points = np.minimum(np.fmax(np.stack(meeting, axis=1), 0), rest[:, None])  # fmax ignores NaN
    b_s = np.concatenate(
        [np.floor(points), np.ceil(points), [[0.0]] * rest[:, None], rest[:, None]], axis=1
    )
    b_s *= (chosen.m_s > 0)[:, None]
    seconds = duration_s(chosen, batch, b_s, b_l[:, None])
    return (
        np.repeat(place, b_s.shape[1]),
        b_s.ravel(),
        np.repeat(b_l, b_s.shape[1]),
        seconds.ravel(),
    )


def _meeting(
    tasks: Tasks, phase: tuple[int, ...], b_l: FloatArray, rest: FloatArray
) -> tuple[FloatArray, ...]:
    """b_s at which two of the branches o, s, l of Eq. (5) or (6) are equal; (R,) each.

    NaN or infinite for parallel branches.
    """
    o_s, s_s, l_s = tasks.slope_s[:, phase].T
    o_setup_s, s_setup_s, l_setup_s = tasks.setup_s[:, phase].T
    all_o_s = o_setup_s + o_s * rest
    l_takes_s = l_s * b_l + l_setup_s * (b_l > 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return (
            (all_o_s - s_setup_s) / (o_s + s_s),
            (all_o_s - l_takes_s) / o_s,
            (l_takes_s - s_setup_s) / s_s,
        )


def all_tasks(problem: Problem) -> Tasks:
    """Tasks of all 6 mappings and all 0 <= m_s <= m_l <= N, K = 3 (N + 1)(N + 2) choices."""
    layers = problem.layers
    pairs = np.triu_indices(layers + 1)
    order = np.repeat(np.arange(len(ORDERS)), len(pairs[0]))
    m_s, m_l = (np.tile(last, len(ORDERS)) for last in pairs)
    o, s, l = np.array([[TIERS.index(tier) for tier in names] for names in ORDERS]).T[:, order]  # noqa: E741
    byte_s = _between(problem.link)
    once_s = _between(problem.link, once=True)

    def sent_s(
        sizes: FloatArray | float, a: IntArray | int, b: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Seconds per sample and once; a message without bytes is not sent."""
        return sizes * byte_s[a, b], np.where(np.greater(sizes, 0), once_s[a, b], 0.0)

    features, gradients = (  # a task of no layers hands on nothing
        np.concatenate([[0.0], sizes]) for sizes in (problem.output_bytes, problem.gradient_bytes)
    )
    o_input, s_input, l_input = (
        sent_s(problem.sample_bytes, DEVICE, worker) for worker in (o, s, l)
    )
    s_output, l_output = sent_s(features[m_s], s, o), sent_s(features[m_l], l, o)
    s_grad, l_grad = sent_s(gradients[m_s], s, o), sent_s(gradients[m_l], l, o)

    (f_o, f_s, f_l), (g_o, g_s, g_l) = problem.span_s[:, [o, s, l], 0, m_s]  # layers 1..m_s
    (f_os, f_2), (g_os, g_2) = problem.span_s[:, [o, l], m_s, m_l]  # layers m_s+1..m_l
    f_3, g_3 = problem.span_s[:, o, m_l, layers]  # the rest
    nothing = np.zeros(len(order))
    slope_s = [
        *(o_input[0] + f_o, s_input[0] + f_s + s_output[0], l_input[0] + f_l),
        *(g_o, g_s + s_grad[0], g_l),
        *(f_os, f_2 + l_output[0]),
        *(g_os, g_2 + l_grad[0]),
    ]
    setup_s = [
        *(o_input[1], s_input[1] + s_output[1], l_input[1]),
        *(nothing, s_grad[1], nothing),
        *(nothing, l_output[1]),
        *(nothing, l_grad[1]),
    ]
    workers, lasts = np.stack([o, s, l]), np.stack([np.full_like(m_s, layers), m_s, m_l])
    hubs = np.array([TIERS.index(problem.hub(names[0])) for names in ORDERS])[order]
    averaged_bytes = problem.param_sum_bytes[lasts]
    averaged_s = averaged_bytes * _between(problem.averaging_link)[workers, hubs]
    once = _between(problem.averaging_link, once=True)[workers, hubs]
    exchange_s = 2 * (averaged_s + np.where(averaged_bytes > 0, once, 0.0)).max(axis=0)
    count = problem.accumulate  # passes of an iteration, which has one update
    passes_s = count * problem.batch * (f_3 + g_3)
    fixed_s = passes_s + problem.update_sum_s[workers, lasts].max(axis=0) + exchange_s
    slopes_s, setups_s = (count * np.stack(rows_s, 1) for rows_s in (slope_s, setup_s))
    return Tasks(order, m_s, m_l, slopes_s, setups_s, fixed_s)


def _between(link: Callable[[str, str], Link], *, once: bool = False) -> FloatArray:
    """[a, b]: seconds per byte, or once a message, by the tiers' places; 0 within one. (3, 3)."""
    seconds = np.zeros((len(TIERS), len(TIERS)))
    for a, b in permutations(range(len(TIERS)), 2):
        way = link(TIERS[a], TIERS[b])
        seconds[a, b] = way.overhead_s + way.latency_s if once else way.transfer_s((1.0,))
    return seconds
