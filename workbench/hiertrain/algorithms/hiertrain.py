"""HierTrain's optimal policy, exact in whole samples (Liu et al. 2020, V).

The paper solves a linear programme for every mapping and every m_s <= m_l and rounds its answer.
Here all of them are bounded from below at once, those whose bound exceeds a known policy's duration
are dropped, and the rest are tried with every b_l and, for each, the few b_s that can be best.

At a fixed b_l, Eqs. (7)-(11) do not depend on how the rest is split, and Eqs. (5) and (6) are
maxima of a branch that falls with b_s (worker o's), one that rises (worker s's) and a constant one
(worker l's). As long as o and s both have samples, so that the same messages are sent, the sum is
convex and piecewise linear in b_s: its least value over whole numbers lies next to a point where
two branches meet, or at an end. Without samples of o or s some overheads are saved, so the ends,
b_s = 0 and b_s = B - b_l, are tried in any case.
"""

from __future__ import annotations

import numpy as np

from workbench.hiertrain.algorithms.bounds import phase_bound_s, relaxed
from workbench.hiertrain.algorithms.tasks import ORDERS, Tasks, all_tasks
from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.costs.problem import FloatArray, Problem, check_problem

# Sums in another order differ by about N units in the last place.
SAME = 1 + 1e-12
# The relaxation's meeting points are rounded too, so its bounds hold up to a little more.
SLACK = 1 + 1e-9
FIRST = 16  # choices from which a first policy is taken
AT_ONCE = 4  # choices whose splits are tried together, before the bounds are looked at again


def hiertrain(problem: Problem) -> Hybrid:
    """Fastest split of layers and samples over device, edge and cloud.

    Of policies equally fast (to some parts in 10^12, since sums round) the one with the fewest
    tiers, then the smallest m_l, m_s, b_l, b_s, then the mapping that comes first in
    `workbench.hiertrain.algorithms.tasks.ORDERS`.

    Deviation: the paper rounds the linear programme's answer, which can miss the best split; this
    one is optimal over all mappings, tasks and whole samples.
    """
    check_problem(problem)
    tasks = all_tasks(problem)
    bound_s = phase_bound_s(tasks)
    by_bound = np.argsort(bound_s, kind="stable")
    tasks, bound_s, known_s = tasks[by_bound], bound_s[by_bound], np.inf
    start, stop = 0, min(FIRST, len(tasks))
    while start < stop:
        some = slice(start, stop)
        bound_s[some], b_s, b_l = relaxed(tasks[some])
        known_s = min(known_s, _rounded_s(tasks[some], b_s, b_l).min())
        start, stop = stop, stop + int((bound_s[stop:] <= known_s * SLACK).sum())
    return _searched(tasks[:stop], bound_s[:stop], known_s)


def _searched(tasks: Tasks, bound_s: FloatArray, known_s: float) -> Hybrid:
    """Best policy of all tasks, each with its bound; one takes `known_s`."""
    by_bound = np.argsort(bound_s, kind="stable")
    tasks, bound_s = tasks[by_bound], bound_s[by_bound]
    least_s, b_s, b_l = np.full((3, len(tasks)), np.inf)
    start = 0
    while start < (left := bound_s.searchsorted(known_s * SLACK, "right")):
        some = slice(start, min(start + AT_ONCE, int(left)))
        least_s[some], b_s[some], b_l[some] = _best_split(tasks[some])
        start, known_s = some.stop, min(known_s, least_s[some].min())

    fastest = np.flatnonzero(least_s <= least_s.min() * SAME)
    tasks, b_s, b_l = tasks[fastest], b_s[fastest], b_l[fastest]
    tiers = np.add(tasks.m_s > 0, tasks.m_l > 0, dtype=int)
    best = np.lexsort((tasks.order, b_s, b_l, tasks.m_s, tasks.m_l, tiers))[0]
    samples = int(b_s[best]), int(b_l[best])
    return Hybrid(
        ORDERS[tasks.order[best]],
        int(tasks.m_s[best]),
        int(tasks.m_l[best]),
        tasks.batch - sum(samples),
        *samples,
    )


def _best_split(tasks: Tasks) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Least duration of each choice, and b_s, b_l that take it. Shape (K,) each."""
    b_s, b_l = candidate_splits(tasks)
    duration_s = tasks.duration_s(b_s, b_l)
    least_s = duration_s.min(axis=1)
    place = b_l * (tasks.batch + 1) + b_s
    place[duration_s > least_s[:, None] * SAME] = np.inf
    first = place.argmin(axis=1)
    rows = np.arange(len(tasks))
    return least_s, b_s[rows, first], b_l[rows, first]


def candidate_splits(tasks: Tasks) -> tuple[FloatArray, FloatArray]:
    """b_s and b_l, among them the fastest split with the least b_l, then b_s.

    14 splits for each b_l. Shape (K, 14 (B + 1)) each, or (K, 14) if worker l takes part in none.
    """
    # axes: K choice, B + 1 samples of worker l, then meeting points
    takes_s, takes_l = ((m > 0)[:, None] for m in (tasks.m_s, tasks.m_l))
    every_l = np.arange(tasks.batch + 1.0) if takes_l.any() else np.zeros(1)
    b_l = np.where(takes_l, every_l, 0.0)
    rest = tasks.batch - b_l
    points = np.stack([*_meeting(tasks, 0, b_l), *_meeting(tasks, 3, b_l)], axis=-1)
    points = np.minimum(np.fmax(points, 0), rest[..., None])  # fmax ignores NaN
    ends = np.stack([0 * rest, rest], axis=-1)
    b_s = np.concatenate([np.floor(points), np.ceil(points), ends], axis=-1)
    b_s = np.where(takes_s[..., None], b_s, 0.0)
    b_l = np.broadcast_to(b_l[..., None], b_s.shape)
    return b_s.reshape(len(tasks), -1), b_l.reshape(len(tasks), -1)


def _meeting(tasks: Tasks, first: int, b_l: FloatArray) -> tuple[FloatArray, ...]:
    """b_s at which two of the branches o, s, l of Eq. (5) or (6) are equal, columns from `first`.

    NaN or infinite for parallel branches.
    """
    o_s, s_s, l_s = tasks.slope_s[first : first + 3, :, None]
    o_setup_s, s_setup_s, l_setup_s = tasks.setup_s[first : first + 3, :, None]
    all_o_s = o_setup_s + o_s * (tasks.batch - b_l)
    l_takes_s = l_s * b_l + l_setup_s * (b_l > 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return (
            (all_o_s - s_setup_s) / (o_s + s_s),
            (all_o_s - l_takes_s) / o_s,
            (l_takes_s - s_setup_s) / s_s,
        )


def _rounded_s(tasks: Tasks, b_s: FloatArray, b_l: FloatArray) -> FloatArray:
    """Duration of the best of the four whole splits around each fractional one. Shape (K,)."""
    whole_s = np.stack([np.floor(b_s), np.floor(b_s), np.ceil(b_s), np.ceil(b_s)], axis=1)
    whole_l = np.stack([np.floor(b_l), np.ceil(b_l), np.floor(b_l), np.ceil(b_l)], axis=1)
    whole_l = np.minimum(whole_l, tasks.batch - whole_s)
    shortest_s: FloatArray = tasks.duration_s(whole_s, whole_l).min(axis=1)
    return shortest_s
