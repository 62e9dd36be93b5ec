"""HierTrain's Algorithm 1 as the paper has it: a linear programme for every choice, rounded."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from workbench.hiertrain.costs import TIERS, FloatArray, Hybrid, Problem, check_problem, iteration

WHOLE = 1e-6
"""HiGHS meets its constraints to some 1e-7: what is so near to a whole number is one."""


def linear_programme(problem: Problem) -> Hybrid:
    """Best policy of Algorithm 1 (Liu et al. 2020, V): seconds to plan, and not always the fastest.

    For each mapping of the tiers to workers o, s, l and each m_s <= m_l, the samples are the
    solution of the relaxed problem P1, rounded; the first of several equally fast is taken.
    `workbench.hiertrain.algorithms.hiertrain.hiertrain` is never slower.

    Deviation: overheads of messages are no part of the linear programme, and are of the durations
    that are compared.
    """
    check_problem(problem)
    best, least_s = None, np.inf
    for order in permutations(TIERS):
        for m_s in range(problem.layers + 1):
            for m_l in range(m_s, problem.layers + 1):
                split = rounded(relaxed(problem, order, m_s, m_l), problem.batch)
                policy = Hybrid(order, m_s, m_l, *split)  # type: ignore[arg-type]
                total_s = iteration(problem, policy).total_s
                if total_s < least_s:
                    best, least_s = policy, total_s
    assert best is not None
    return best


def relaxed(problem: Problem, order: tuple[str, ...], m_s: int, m_l: int) -> FloatArray:
    """b_o, b_s and b_l, in fractions, of P1 for a mapping and two tasks. Shape (3,)."""
    from scipy.optimize import linprog

    o, s, l = order  # noqa: E741
    (f_o, f_s, f_l), (g_o, g_s, g_l) = (
        [spans_s[TIERS.index(worker)] for worker in order] for spans_s in problem.span_s
    )

    def sent_s(size_bytes: float, a: str, b: str) -> float:
        return 0.0 if a == b else problem.link(a, b).transfer_s((size_bytes,))

    def crossing_s(sizes: FloatArray, worker: str, last: int) -> float:
        return sent_s(sizes[last - 1], worker, o) if last else 0.0

    o_input_s, s_input_s, l_input_s = (
        sent_s(problem.sample_bytes, "device", worker) for worker in order
    )
    features, gradients = problem.output_bytes, problem.gradient_bytes
    branches = [  # seconds per sample of b_o, b_s, b_l, and the maximum that the sum bounds
        (o_input_s + f_o[0, m_s], 0, 0, 0),  # Eq. (5)
        (0, s_input_s + f_s[0, m_s] + crossing_s(features, s, m_s), 0, 0),
        (0, 0, l_input_s + f_l[0, m_s], 0),
        (g_o[0, m_s], 0, 0, 1),  # Eq. (6)
        (0, g_s[0, m_s] + crossing_s(gradients, s, m_s), 0, 1),
        (0, 0, g_l[0, m_s], 1),
        (f_o[m_s, m_l], f_o[m_s, m_l], 0, 2),  # Eq. (7)
        (0, 0, f_l[m_s, m_l] + crossing_s(features, l, m_l), 2),
        (g_o[m_s, m_l], g_o[m_s, m_l], 0, 3),  # Eq. (8)
        (0, 0, g_l[m_s, m_l] + crossing_s(gradients, l, m_l), 3),
    ]
    bounds = np.zeros((len(branches), 7))  # axes: branch; b_o, b_s, b_l and the four maxima
    for row, (*per_sample_s, maximum) in enumerate(branches):
        bounds[row, :3] = per_sample_s
        bounds[row, 3 + maximum] = -1
    batch = problem.batch
    solution = linprog(
        c=[0, 0, 0, 1, 1, 1, 1],
        A_ub=bounds,
        b_ub=np.zeros(len(branches)),
        A_eq=[[1, 1, 1, 0, 0, 0, 0]],  # Eq. (17)
        b_eq=[batch],
        bounds=[(0, batch), (0, m_s * batch), (0, m_l * batch)] + [(0, None)] * 4,
        method="highs",
    )
    if solution.status:
        raise RuntimeError(f"the linear programme of {order}, {m_s}, {m_l}: {solution.message}")
    samples: FloatArray = solution.x[:3]
    return samples


def rounded(samples: FloatArray, batch: int) -> list[int]:
    """The paper's rounding: up where the fraction is largest, or else where the two largest are.

    Deviation: samples that are whole stay, where the paper would add one.
    """
    near = np.rint(samples)
    samples = np.where(abs(samples - near) < WHOLE, near, samples)
    whole = np.floor(samples)
    whole[np.argsort(whole - samples, kind="stable")[: batch - int(whole.sum())]] += 1
    split: list[int] = whole.astype(int).tolist()
    return split
