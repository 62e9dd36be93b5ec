"""iBatch and its extension iPart: greedy batching of transmissions (DynaComm's baseline).

Wang, Pi and Zhou (AAAI 2019) for the pulls, Wang et al. (TPDS 2021) for the pushes, as Cai et al.
2021 print them (Algs. 1 and 2). Both greedies match each transmission with the computation that
it is to hide: the next segment is the shortest whose transmission is no shorter than the current
segment's computation.

Deviation: where no segment satisfies the condition (open in the printed pseudo-code), the one
that comes nearest is taken. Line 4 of Alg. 1 chooses among pairs by a quantity in which they do
not differ; the quantity meant, as in line 13, is the transmission that follows.
"""

from __future__ import annotations

from bisect import bisect_left

from workbench.dynacomm.costs import Direction, LayerCosts, Plan


def ibatch(costs: LayerCosts) -> Plan:
    """Greedy batches of layers: pulls by iBatch, pushes by iPart."""
    return Plan(forward_cuts(costs.forward), backward_cuts(costs.backward))


def forward_cuts(direction: Direction) -> tuple[int, ...]:
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


def backward_cuts(direction: Direction) -> tuple[int, ...]:
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
