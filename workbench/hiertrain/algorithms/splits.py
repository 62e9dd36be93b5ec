"""Splits of the samples among which the best one is, for fixed tasks.

At a fixed b_l, Eqs. (7)-(11) do not depend on how the rest is split, and Eqs. (5) and (6) are
maxima of a branch that falls with b_s (worker o's), one that rises (worker s's) and a constant one
(worker l's). As long as o and s both have samples, so that the same messages are sent, the sum is
convex and piecewise linear in b_s: its least value over whole numbers lies next to a point where
two branches meet, or at an end. Without samples of o or s some overheads are saved, so the ends,
b_s = 0 and b_s = B - b_l, are tried in any case.
"""

from __future__ import annotations

import numpy as np

from workbench.hiertrain.algorithms.tasks import Tasks
from workbench.hiertrain.costs.problem import FloatArray


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
