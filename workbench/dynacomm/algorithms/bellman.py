"""The paper's dynamic programme as printed, in plain NumPy: the yardstick of its Fig. 12.

`workbench.dynacomm.algorithms.dynacomm` finds the same optimum faster, and is what plans.
"""

from __future__ import annotations

import numpy as np

from workbench.dynacomm.costs.iteration import FloatArray, LayerCosts, check_costs
from workbench.dynacomm.costs.plan import Plan


def bellman(costs: LayerCosts) -> Plan:
    """Optimal plan in O(L^3) time and O(L^2) memory (Cai et al. 2021, Algs. 3 and 4)."""
    check_costs(costs)
    return Plan(forward_cuts(costs), backward_cuts(costs))


def forward_cuts(costs: LayerCosts) -> tuple[int, ...]:
    """Eq. (13): F[m, n], the least time to compute layers 1..m with n pulls."""
    layers = costs.layers
    pulled_s, computed_s = _sums(costs.pull_s), _sums(costs.forward_s)
    fastest_s, path = _tables(layers)
    for m in range(1, layers + 1):
        n = np.arange(1, m + 1)
        arrived_s = n * costs.overhead_s + pulled_s[m]
        # K = k, the layer behind which the last pull is cut; N = n, the number of pulls: [K, N]
        done_s = np.maximum(fastest_s[:m, :m], arrived_s) + (computed_s[m] - computed_s[:m, None])
        path[m, 1 : m + 1] = done_s.argmin(axis=0)
        fastest_s[m, 1 : m + 1] = done_s.min(axis=0)
    return tuple(k for k in _trace_back(fastest_s, path) if 1 <= k < layers)


def backward_cuts(costs: LayerCosts) -> tuple[int, ...]:
    """Eq. (14): B[m, n], the least time to push the gradients of the last m layers in n pushes."""
    layers = costs.layers
    pushed_s, computed_s = _sums(costs.push_s[::-1]), _sums(costs.backward_s[::-1])
    fastest_s, path = _tables(layers)
    for m in range(1, layers + 1):
        start_s = np.maximum(fastest_s[:m, :m], computed_s[m])
        done_s = start_s + costs.overhead_s + (pushed_s[m] - pushed_s[:m, None])
        path[m, 1 : m + 1] = done_s.argmin(axis=0)
        fastest_s[m, 1 : m + 1] = done_s.min(axis=0)
    return tuple(sorted(layers - k for k in _trace_back(fastest_s, path) if 1 <= k < layers))


def _sums(values: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], values.cumsum()])


def _tables(layers: int) -> tuple[FloatArray, np.ndarray[tuple[int, int], np.dtype[np.intp]]]:
    fastest_s = np.full((layers + 1, layers + 1), np.inf)
    fastest_s[0, 0] = 0.0
    return fastest_s, np.full((layers + 1, layers + 1), -1, dtype=np.intp)


def _trace_back(
    fastest_s: FloatArray, path: np.ndarray[tuple[int, int], np.dtype[np.intp]]
) -> list[int]:
    """Last layers of the segments, in the order of transmission, from 0."""
    m = len(path) - 1
    transmissions = int(fastest_s[m, 1:].argmin()) + 1
    ends: list[int] = []
    for n in range(transmissions, 0, -1):
        m = int(path[m, n])
        ends.append(m)
    return ends[::-1]
