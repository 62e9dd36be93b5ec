"""Every choice of HierTrain but the samples, as slopes: what the solver searches.

For a mapping of tiers to workers o, s, l and for tasks of m_s and m_l layers, each branch of the
maxima of Eqs. (5)-(8) is a number of samples times seconds per sample, plus the overheads of the
messages that are sent if there are samples. The rest of Eq. (12) does not depend on samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from workbench.hiertrain.costs.problem import TIERS, FloatArray, Pair, Problem

IntArray = NDArray[np.int64]

ORDERS = tuple(permutations(TIERS))  # the tiers of o, s, l
ORDER_TIERS = np.array([[TIERS.index(tier) for tier in order] for order in ORDERS]).T
DEVICE = TIERS.index("device")
# Columns of the slopes: Eqs. (5), (6), (7), (8), and who computes in them. In Eqs. (7) and (8)
# worker o carries the samples of s as well.
PHASES = (slice(0, 3), slice(3, 6), slice(6, 8), slice(8, 10))
WORKERS = ("o", "s", "l", "o", "s", "l", "o+s", "l", "o+s", "l")


@dataclass(frozen=True, eq=False)
class Tasks:
    """K choices of a mapping, m_s and m_l.

    Axes: K = choice, 10 = branch, as in `WORKERS`.
    """

    batch: int
    order: IntArray  # place of the mapping in `ORDERS`, (K,)
    m_s: IntArray  # last layer of the short task, (K,)
    m_l: IntArray  # last layer of the long task, (K,)
    slope_s: FloatArray  # seconds per sample, (10, K)
    setup_s: FloatArray  # seconds once if there is any sample, (10, K)
    fixed_s: FloatArray  # seconds that no split changes, Eqs. (9)-(11), (K,)

    def __len__(self) -> int:
        return len(self.fixed_s)

    def __getitem__(self, chosen: IntArray | NDArray[np.bool_] | slice) -> Tasks:
        return Tasks(
            self.batch,
            self.order[chosen],
            self.m_s[chosen],
            self.m_l[chosen],
            self.slope_s[:, chosen],
            self.setup_s[:, chosen],
            self.fixed_s[chosen],
        )

    @cached_property
    def has_setups(self) -> bool:
        """Whether any message costs more than its bytes."""
        return bool(self.setup_s.any())

    def duration_s(self, b_s: FloatArray, b_l: FloatArray) -> FloatArray:
        """Seconds of an iteration (Eq. 12) of each choice under its splits. Shape (K, P).

        `b_s` and `b_l`, shape (K, P) or (1, P), are samples of workers s and l; o has the rest.
        """
        b_os = self.batch - b_l
        samples = {"o": b_os - b_s, "s": b_s, "l": b_l, "o+s": b_os}
        total_s = self.fixed_s[:, None]
        for phase in PHASES:
            longest_s: FloatArray | None = None
            for column in range(phase.start, phase.stop):
                branch_s = self.slope_s[column][:, None] * samples[WORKERS[column]]
                if self.has_setups:
                    branch_s += self.setup_s[column][:, None] * (samples[WORKERS[column]] > 0)
                longest_s = branch_s if longest_s is None else np.maximum(longest_s, branch_s)
            assert longest_s is not None
            total_s = total_s + longest_s
        return total_s


def all_tasks(problem: Problem) -> Tasks:
    """Tasks of all 6 mappings and all 0 <= m_s <= m_l <= N, K = 3 (N + 1)(N + 2) choices."""
    layers = problem.layers
    overhead_s = _by_tiers(problem.overhead_s)
    pairs = np.triu_indices(layers + 1)
    order = np.repeat(np.arange(len(ORDERS)), len(pairs[0]))
    m_s, m_l = (np.tile(last, len(ORDERS)) for last in pairs)
    o, s, l = ORDER_TIERS[:, order]  # noqa: E741
    per_byte_s = _per_byte_s(problem)

    def setup_s(slope_s: FloatArray, a: IntArray | int, b: IntArray) -> FloatArray:
        """Overhead of a message with these seconds per sample; without bytes it is not sent."""
        return np.where(slope_s > 0, overhead_s[a, b], 0.0)

    o_input_s, s_input_s, l_input_s = problem.sample_bytes * per_byte_s[DEVICE, [o, s, l]]
    (s_output_s, l_output_s), (s_grad_s, l_grad_s) = (
        (sizes[m_s] * per_byte_s[s, o], sizes[m_l] * per_byte_s[l, o])
        for sizes in (  # a task of no layers hands on nothing
            np.concatenate([[0.0], problem.output_bytes]),
            np.concatenate([[0.0], problem.gradient_bytes]),
        )
    )
    nothing = np.zeros(len(order))

    (f_o, f_s, f_l), (g_o, g_s, g_l) = problem.span_s[:, [o, s, l], 0, m_s]  # layers 1..m_s
    (f_os, f_2), (g_os, g_2) = problem.span_s[:, [o, l], m_s, m_l]  # layers m_s+1..m_l
    f_3, g_3 = problem.span_s[:, o, m_l, layers]  # the rest
    slopes = [o_input_s + f_o, s_input_s + f_s + s_output_s, l_input_s + f_l]
    slopes += [g_o, g_s + s_grad_s, g_l]
    slopes += [f_os, f_2 + l_output_s, g_os, g_2 + l_grad_s]
    if overhead_s.any():
        of_s = setup_s(s_input_s, DEVICE, s) + setup_s(s_output_s, s, o)
        setups = [setup_s(o_input_s, DEVICE, o), of_s, setup_s(l_input_s, DEVICE, l)]
        setups += [nothing, setup_s(s_grad_s, s, o), nothing]
        setups += [nothing, setup_s(l_output_s, l, o), nothing, setup_s(l_grad_s, l, o)]
    else:
        setups = [nothing] * len(slopes)

    workers, lasts = np.stack([o, s, l]), np.stack([np.full_like(m_s, layers), m_s, m_l])
    hubs = np.array([TIERS.index(problem.hub(order[0])) for order in ORDERS])[order]
    averaging_s = _per_byte_s(problem, averaging=True)[workers, hubs]
    sent_s = 2 * problem.param_sum_bytes[lasts] * averaging_s
    weightgrads_s = (sent_s + 2 * setup_s(sent_s, workers, hubs)).max(axis=0)
    updates_s = problem.update_sum_s[workers, lasts].max(axis=0)
    fixed_s = problem.batch * (f_3 + g_3) + updates_s + weightgrads_s
    return Tasks(problem.batch, order, m_s, m_l, np.stack(slopes), np.stack(setups), fixed_s)


def _per_byte_s(problem: Problem, *, averaging: bool = False) -> FloatArray:
    """[a, b]: seconds per byte between two tiers, by their places in `TIERS`. Shape (3, 3).

    Of samples and features, or of gradients to be averaged.
    """
    links = dict(problem.bandwidth_bps)
    if averaging and problem.averaging:
        links |= {("device", to): bps for to, bps in problem.averaging.bandwidth_bps.items()}
    return _by_tiers({pair: 8 / bandwidth_bps for pair, bandwidth_bps in links.items()})


def _by_tiers(of_pairs: Mapping[Pair, float]) -> FloatArray:
    """[a, b]: values of pairs of tiers, by their places in `TIERS`; 0 within one. Shape (3, 3)."""
    values = np.zeros((len(TIERS), len(TIERS)))
    for (a, b), value in of_pairs.items():
        ends = TIERS.index(a), TIERS.index(b)
        values[ends] = values[ends[::-1]] = value
    return values
