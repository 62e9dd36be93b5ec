"""DynaComm and the planners that it is compared with: a plan of the layers' costs.

>>> from workbench.dynacomm.costs import LayerCosts
>>> costs = LayerCosts([3, 1, 1], [2, 4, 1], [5, 1, 2], [2, 6, 1], overhead_s=1)
>>> dynacomm(costs)
Plan(forward_cuts=(1,), backward_cuts=(1,))
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from workbench.dynacomm.costs import Direction, FloatArray, LayerCosts, Plan
from workbench.dynacomm.ibatch import ibatch

Planner = Callable[[LayerCosts], Plan]

TOLERANCE = 1e-13
"""How far above the optimum the duration of a plan of `dynacomm` may be, relatively."""


def sequential(costs: LayerCosts) -> Plan:
    """The default parameter server: no cut in either direction (Cai et al. 2021, Fig. 2a)."""
    return Plan()


def layer_by_layer(costs: LayerCosts) -> Plan:
    """Poseidon's wait-free back-propagation: all cuts (Zhang et al. 2017; Cai et al., Fig. 2c)."""
    everywhere = tuple(range(1, costs.layers))
    return Plan(everywhere, everywhere)


def mg_wfbp(costs: LayerCosts) -> Plan:
    """MG-WFBP: layer by layer, less the cuts that cost more than they win (Shi et al. 2019).

    Deviation: the original merges gradients only, for all-reduce. A parameter server also sends
    parameters; pulls are merged by the same rule with time reversed.
    """
    return Plan(merged_cuts(costs.forward), merged_cuts(costs.backward))


def merged_cuts(direction: Direction) -> tuple[int, ...]:
    """Cuts that remain after merging, from the last layer to the first.

    Layer l's push is merged into that of layer l-1 if, when the gradient of l-1 is ready, it has
    not started yet, or if waiting for that gradient costs less than another overhead. Either way
    the gradient is ready less than one overhead after the start (and so before the end, the third
    condition of the original).
    """
    sent_s, left_s, overhead_s = direction.sent_s, direction.left_s, direction.overhead_s
    cuts: list[int] = []
    end, free_s = direction.layers, 0.0  # layers above `end` are pushed by `free_s`
    for layer in range(direction.layers, 1, -1):
        start_s = max(free_s, left_s[layer - 1])
        ready_s = left_s[layer - 2]
        if ready_s - start_s >= overhead_s:
            cuts.append(layer - 1)
            free_s = start_s + overhead_s + (sent_s[end] - sent_s[layer - 1])
            end = layer - 1
    return tuple(cuts[::-1])


def dynacomm(costs: LayerCosts) -> Plan:
    """Fastest plan there is, within `TOLERANCE`, with the fewest transmissions of those as fast.

    Deviation: the paper minimises over all cuts by dynamic programming in O(L^3), see `bellman`.
    `Direction` shows the duration to be a maximum over the segments, which only grows with their
    number and ends and only shrinks with their starts. For a fixed deadline it is thus never worse
    to make a segment longer: one pass decides whether the deadline can be met, with the fewest
    transmissions. What remains is a search for the least deadline that can, of a few tens of steps
    in O(n log L) for n segments.
    """
    return Plan(optimal_cuts(costs.forward), optimal_cuts(costs.backward))


def optimal_cuts(direction: Direction) -> tuple[int, ...]:
    """Cuts with the least duration, by bisection between a bound and what has been reached."""
    sent_s, left_s, overhead_s = direction.sent_s, direction.left_s, direction.overhead_s
    low_s = max((overhead_s + s) + c for s, c in zip(sent_s[1:], left_s, strict=False))
    cuts: list[int] = []
    high_s = overhead_s + sent_s[-1] + left_s[0]
    deadline_s = low_s
    while high_s - low_s > TOLERANCE * high_s:
        found, next_s = longest_segments(direction, deadline_s)
        if found is None:
            low_s = max(deadline_s, next_s)
        else:
            cuts, high_s = found, min(deadline_s, direction.duration_s(found))
        deadline_s = low_s + (high_s - low_s) / 2
    return tuple(cuts)


def longest_segments(direction: Direction, deadline_s: float) -> tuple[list[int] | None, float]:
    """Make every segment as long as the deadline allows.

    Returns the cuts, or None where the deadline cannot be met, and the least duration above the
    deadline at which another choice would have been possible.
    """
    sent_s, left_s, overhead_s = direction.sent_s, direction.left_s, direction.overhead_s
    cuts, next_s = [0], float("inf")
    while True:
        busy_s = len(cuts) * overhead_s + left_s[cuts[-1]]
        end = bisect_right(sent_s, deadline_s - busy_s, cuts[-1] + 1) - 1
        if end == direction.layers:
            return cuts[1:], next_s
        next_s = min(next_s, busy_s + sent_s[end + 1])
        if end == cuts[-1]:
            return None, next_s
        cuts.append(end)


def bellman(costs: LayerCosts) -> Plan:
    """The paper's dynamic programme as printed, O(L^3) in plain NumPy (Algs. 3 and 4).

    `dynacomm` finds the same optimum faster, and is what plans; this is the yardstick of Table I
    and Fig. 12.
    """
    return Plan(bellman_forward_cuts(costs), bellman_backward_cuts(costs))


def bellman_forward_cuts(costs: LayerCosts) -> tuple[int, ...]:
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


def bellman_backward_cuts(costs: LayerCosts) -> tuple[int, ...]:
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


def _tables(layers: int) -> tuple[FloatArray, NDArray[np.intp]]:
    fastest_s = np.full((layers + 1, layers + 1), np.inf)
    fastest_s[0, 0] = 0.0
    return fastest_s, np.full((layers + 1, layers + 1), -1, dtype=np.intp)


def _trace_back(fastest_s: FloatArray, path: NDArray[np.intp]) -> list[int]:
    """Last layers of the segments, in the order of transmission, from 0."""
    m = len(path) - 1
    transmissions = int(fastest_s[m, 1:].argmin()) + 1
    ends: list[int] = []
    for n in range(transmissions, 0, -1):
        m = int(path[m, n])
        ends.append(m)
    return ends[::-1]


PLANNERS: dict[str, Planner] = {
    "sequential": sequential,
    "layer_by_layer": layer_by_layer,
    "ibatch": ibatch,
    "dynacomm": dynacomm,
    "mg_wfbp": mg_wfbp,
}
"""Planners by name; `bellman`, which plans as `dynacomm` does, is not among them."""
