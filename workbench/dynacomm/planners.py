"""DynaComm and the planners that it is compared with: a plan of the layers' costs.

>>> from workbench.dynacomm.costs import LayerCosts
>>> costs = LayerCosts([3, 1, 1], [2, 4, 1], [5, 1, 2], [2, 6, 1], overhead_s=1)
>>> dynacomm(costs)
Plan(forward_cuts=(1,), backward_cuts=(1,))
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from workbench.dynacomm.costs import Direction, FloatArray, LayerCosts, Plan, check_costs

Planner = Callable[[LayerCosts], Plan]

TOLERANCE = 1e-13
"""How far above the optimum the duration of a plan of `dynacomm` may be, relatively."""


def sequential(costs: LayerCosts) -> Plan:
    """The default parameter server: no cut in either direction (Cai et al. 2021, Fig. 2a)."""
    check_costs(costs)
    return Plan()


def layer_by_layer(costs: LayerCosts) -> Plan:
    """Poseidon's wait-free back-propagation: all cuts (Zhang et al. 2017; Cai et al., Fig. 2c)."""
    check_costs(costs)
    everywhere = tuple(range(1, costs.layers))
    return Plan(everywhere, everywhere)


def ibatch(costs: LayerCosts) -> Plan:
    """IBatch and its extension iPart: greedy batches of pulls and pushes (Algs. 1 and 2).

    Wang, Pi and Zhou (AAAI 2019) for the pulls, Wang et al. (TPDS 2021) for the pushes, as Cai et
    al. 2021 print them. Both greedies match each transmission with the computation that it is to
    hide: the next segment is the shortest whose transmission is no shorter than the current
    segment's computation.

    Deviation: where no segment satisfies the condition (open in the printed pseudo-code), the one
    that comes nearest is taken. Line 4 of Alg. 1 chooses among pairs by a quantity in which they do
    not differ; the quantity meant, as in line 13, is the transmission that follows.
    """
    check_costs(costs)
    return Plan(ibatch_forward_cuts(costs.forward), ibatch_backward_cuts(costs.backward))


def ibatch_forward_cuts(direction: Direction) -> tuple[int, ...]:
    """The faster of two greedies: from the first layer on, and from the last layer back."""
    candidates = (from_first_layer(direction), from_last_layer(direction))
    return min(candidates, key=direction.duration_s)


def from_first_layer(direction: Direction) -> tuple[int, ...]:
    """Alg. 1: the first segment as long as any transmission can still hide its computation."""
    layers, overhead_s = direction.layers, direction.overhead_s
    sent_s, done_s = direction.sent_s, _done_s(direction)
    if layers == 1:
        return ()
    first = 1
    for cut in range(layers - 1, 1, -1):
        if overhead_s + (sent_s[-1] - sent_s[cut]) >= done_s[cut]:
            first = cut
            break
    cuts, previous, last = [first], 0, first
    while last < layers:
        # Shortest transmission after `last` that hides the computation of previous+1..last.
        needed_s = sent_s[last] + (done_s[last] - done_s[previous]) - overhead_s
        end = min(max(bisect_left(sent_s, needed_s), last + 1), layers)
        cuts.append(end)
        previous, last = last, end
    return tuple(cuts[:-1])


def from_last_layer(direction: Direction) -> tuple[int, ...]:
    """Alg. 1 in reverse: segments are set from the last layer back.

    The last transmission hides the longest computation that it can; every segment before it is the
    longest whose computation the transmission behind it can hide.
    """
    layers, overhead_s = direction.layers, direction.overhead_s
    sent_s, done_s = direction.sent_s, _done_s(direction)
    if layers == 1:
        return ()

    def hidden_from(last: int, end: int) -> int:
        """First cut k such that computing k+1..last fits into the transmission of last+1..end."""
        reachable_s = done_s[last] - (overhead_s + (sent_s[end] - sent_s[last]))
        return min(bisect_left(done_s, reachable_s), last - 1)

    last = max(
        range(1, layers), key=lambda cut: (done_s[cut] - done_s[hidden_from(cut, layers)], cut)
    )
    cuts, end = [last], layers
    while (start := hidden_from(last, end)) > 0:
        cuts.append(start)
        last, end = start, last
    return tuple(cuts[::-1])


def ibatch_backward_cuts(direction: Direction) -> tuple[int, ...]:
    """Alg. 2: the same greedy from every possible first push; the fastest of all candidates.

    The k-th push ends no earlier than k overheads and all transfers so far; the next segment is
    the longest that computes within that time.
    """
    layers, overhead_s = direction.layers, direction.overhead_s
    sent_s, left_s = direction.sent_s, direction.left_s
    rising_s = [-seconds for seconds in left_s]  # left_s falls; bisection wants it to rise
    best: tuple[int, ...] = ()
    best_s = float("inf")
    for first in range(layers, 1, -1):
        cuts, lowest, pushes = [], first, 0
        while lowest > 1:
            pushes += 1
            cut = lowest - 1
            cuts.append(cut)
            busy_s = pushes * overhead_s + (sent_s[layers] - sent_s[cut])
            # The longest run of layers up to `cut` that computes within busy_s, at least one.
            lowest = min(bisect_left(rising_s, -(left_s[cut] + busy_s), 0, cut), cut - 1) + 1
        candidate = tuple(cuts[::-1])
        duration_s = direction.duration_s(candidate)
        if duration_s < best_s:
            best, best_s = candidate, duration_s
    return best


def _done_s(direction: Direction) -> list[float]:
    """done_s[c]: computation time of layers 1..c."""
    return [direction.left_s[0] - left_s for left_s in direction.left_s]


def mg_wfbp(costs: LayerCosts) -> Plan:
    """MG-WFBP: layer by layer, less the cuts that cost more than they win (Shi et al. 2019).

    Deviation: the original merges gradients only, for all-reduce. A parameter server also sends
    parameters; pulls are merged by the same rule with time reversed.
    """
    check_costs(costs)
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
    check_costs(costs)
    return Plan(optimal_cuts(costs.forward), optimal_cuts(costs.backward))


def optimal_cuts(direction: Direction) -> tuple[int, ...]:
    """Cuts with the least duration, by bisection between a bound and what has been reached."""
    sent_s, left_s, overhead_s = direction.sent_s, direction.left_s, direction.overhead_s
    low_s = max((overhead_s + s) + c for s, c in zip(sent_s[1:], left_s, strict=False))
    cuts: list[int] = []
    high_s = overhead_s + sent_s[-1] + left_s[0]
    deadline_s = low_s
    while high_s - low_s > TOLERANCE * high_s:
        segmented, next_s = longest_segments(direction, deadline_s)
        if segmented is None:
            low_s = max(deadline_s, next_s)
        else:
            cuts = segmented
            high_s = min(deadline_s, direction.duration_s(cuts))
        deadline_s = low_s + (high_s - low_s) / 2
    # Of plans that differ by the rounding of sums, the one of the fewest transmissions.
    fewest, _ = longest_segments(direction, high_s * (1 + TOLERANCE))
    return tuple(cuts if fewest is None else fewest)


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
    check_costs(costs)
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
