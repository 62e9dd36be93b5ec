"""Lower bounds on the duration of a choice of tasks, whatever the split of the samples.

Both bounds leave out the overheads of messages and allow fractional samples.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from workbench.hiertrain.algorithms.tasks import PHASES, WORKERS, Tasks
from workbench.hiertrain.costs.problem import FloatArray

# Columns of `Tasks.slope_s` that are equal along a line: pairs within Eqs. (5)-(8).
ONE, OTHER = np.array([(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (6, 7), (8, 9)]).T
# Samples of a worker are a_s b_s + a_l b_l - c B with these a_s, a_l, c.
AFFINE = {"o": (-1, -1, -1), "s": (1, 0, 0), "l": (0, 1, 0), "o+s": (0, -1, -1)}
COLUMNS = np.array([AFFINE[worker] for worker in WORKERS], dtype=float).T[:, :, None]
SIDES = np.array([(1, 0, 0), (0, 1, 0), (1, 1, 1)], dtype=float).T[:, :, None]  # of the triangle
FIRST, SECOND = np.triu_indices(len(ONE) + 3, k=1)  # every pair of lines


def phase_bound_s(tasks: Tasks) -> FloatArray:
    """Bound by phases, each balanced by itself: B over the sum of the workers' speeds. (K,)."""
    idle = {"s": tasks.m_s == 0, "l": tasks.m_l == 0}
    nobody = np.zeros(len(tasks), dtype=bool)
    total_s = tasks.fixed_s
    with np.errstate(divide="ignore", over="ignore"):
        speed = 1 / tasks.slope_s
    for phase in PHASES:
        per_s = sum(
            np.where(idle.get(WORKERS[column], nobody), 0.0, speed[column])
            for column in range(phase.start, phase.stop)
        )
        total_s = total_s + tasks.batch / per_s
    return total_s


def relaxed(tasks: Tasks) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Optimum over fractional samples: the linear programme of the paper's Algorithm 1.

    The duration is convex and piecewise linear in (b_s, b_l), so its minimum lies where two of 11
    lines meet: the 8 on which two branches of a maximum are equal, and the 3 sides of the triangle
    of all splits. All 55 meeting points are tried. A point outside of the triangle is moved into
    it, where it is one more split and cannot spoil the minimum.

    Returns the least duration, b_s and b_l. Shape (K,) each.
    """
    lines = _lines(tasks)
    (a_s, a_l, c), (d_s, d_l, e) = lines[:, FIRST], lines[:, SECOND]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        determinant = a_s * d_l - a_l * d_s
        b_s = (c * d_l - a_l * e) / determinant
        b_l = (a_s * e - c * d_s) / determinant
    # Parallel lines give NaN, which fmax ignores, or an infinite number.
    b_s = np.minimum(np.fmax(b_s.T, 0), np.where(tasks.m_s > 0, tasks.batch, 0)[:, None])
    b_l = np.minimum(np.fmax(b_l.T, 0), np.where(tasks.m_l > 0, tasks.batch - b_s.T, 0).T)
    without_setups = replace(tasks, setup_s=np.zeros_like(tasks.setup_s))
    duration_s = without_setups.duration_s(b_s, b_l)
    best = duration_s.argmin(axis=1)
    rows = np.arange(len(tasks))
    return duration_s[rows, best], b_s[rows, best], b_l[rows, best]


def _lines(tasks: Tasks) -> FloatArray:
    """a_s, a_l, c of the lines a_s b_s + a_l b_l = c of each choice. Shape (3, 11, K)."""
    # Scaled so that the sides of the triangle and the kinks are of one size.
    slope = tasks.slope_s / np.maximum(tasks.slope_s.max(axis=0), np.finfo(float).tiny)
    branches = COLUMNS * slope
    sides = np.broadcast_to(SIDES, (3, 3, len(tasks)))
    lines = np.concatenate([branches[:, ONE] - branches[:, OTHER], sides], axis=1)
    lines[2] *= tasks.batch
    return lines
