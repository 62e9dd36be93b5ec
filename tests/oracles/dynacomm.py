"""DynaComm from the paper in clear loops: no reuse of the package's code, no speed."""

from collections.abc import Iterator, Sequence
from itertools import combinations

Seconds = Sequence[float]


def forward_s(pull_s: Seconds, compute_s: Seconds, overhead_s: float, cuts: Sequence[int]) -> float:
    """Play the forward direction layer by layer (Eqs. 1, 4, 5)."""
    clock_s, arrived_s = 0.0, {}
    for first, last in segments(cuts, len(pull_s)):
        clock_s += overhead_s
        for layer in range(first, last + 1):
            clock_s += pull_s[layer - 1]
        for layer in range(first, last + 1):
            arrived_s[layer] = clock_s  # a segment is usable when it has arrived whole
    done_s = 0.0
    for layer in range(1, len(pull_s) + 1):
        done_s = max(done_s, arrived_s[layer]) + compute_s[layer - 1]
    return done_s


def backward_s(
    push_s: Seconds, compute_s: Seconds, overhead_s: float, cuts: Sequence[int]
) -> float:
    """Play the backward direction layer by layer (Eqs. 2, 6, 7)."""
    clock_s, ready_s = 0.0, {}
    for layer in range(len(push_s), 0, -1):
        clock_s += compute_s[layer - 1]
        ready_s[layer] = clock_s
    done_s = 0.0
    for first, last in reversed(segments(cuts, len(push_s))):
        done_s = max(done_s, ready_s[first]) + overhead_s
        for layer in range(last, first - 1, -1):
            done_s += push_s[layer - 1]
    return done_s


def segments(cuts: Sequence[int], layers: int) -> list[tuple[int, int]]:
    bounds = [0, *sorted(cuts), layers]
    return [(bounds[i] + 1, bounds[i + 1]) for i in range(len(bounds) - 1)]


def all_cuts(layers: int) -> Iterator[tuple[int, ...]]:
    for count in range(layers):
        yield from combinations(range(1, layers), count)


def brute_force_forward_s(pull_s: Seconds, compute_s: Seconds, overhead_s: float) -> float:
    return min(forward_s(pull_s, compute_s, overhead_s, cuts) for cuts in all_cuts(len(pull_s)))


def brute_force_backward_s(push_s: Seconds, compute_s: Seconds, overhead_s: float) -> float:
    return min(backward_s(push_s, compute_s, overhead_s, cuts) for cuts in all_cuts(len(push_s)))


def tables(layers: int) -> tuple[list[list[float]], list[list[int]]]:
    """F or B of Eqs. (13) and (14), and the choices, as both algorithms begin them."""
    fastest = [[float("inf")] * (layers + 1) for _ in range(layers + 1)]
    fastest[0][0] = 0.0
    return fastest, [[-1] * (layers + 1) for _ in range(layers + 1)]


def traced_back(fastest: list[list[float]], path: list[list[int]]) -> list[int]:
    """The choices of the fastest number of transmissions."""
    layers = len(path) - 1
    steps = min(range(1, layers + 1), key=lambda n: fastest[layers][n])
    cuts, current = [], layers
    for step in range(1, steps + 1):
        current = path[current][steps - step + 1]
        if 1 <= current <= layers - 1:
            cuts.append(current)
    return cuts


def algorithm_3(pull_s: Seconds, compute_s: Seconds, overhead_s: float) -> list[int]:
    """The paper's Algorithm 3, line by line; returns the enabled cuts."""
    layers = len(pull_s)
    fastest, path = tables(layers)
    for m in range(1, layers + 1):
        for n in range(1, m + 1):
            for k in range(m):
                last_start = max(fastest[k][n - 1], n * overhead_s + sum(pull_s[:m]))
                if fastest[m][n] <= last_start + sum(compute_s[k:m]):
                    continue
                fastest[m][n] = last_start + sum(compute_s[k:m])
                path[m][n] = k
    return sorted(traced_back(fastest, path))


def algorithm_4(push_s: Seconds, compute_s: Seconds, overhead_s: float) -> list[int]:
    """The paper's Algorithm 4 (its lines 23-26 print F for B); returns the enabled cuts."""
    layers = len(push_s)
    fastest, path = tables(layers)
    for m in range(1, layers + 1):
        for n in range(1, m + 1):
            for k in range(m):
                last_start = max(fastest[k][n - 1], sum(compute_s[layers - m :]))
                end = last_start + overhead_s + sum(push_s[layers - m : layers - k])
                if fastest[m][n] <= end:
                    continue
                fastest[m][n] = end
                path[m][n] = k
    return sorted(layers - cut for cut in traced_back(fastest, path))


def ibatch_from_first(pull_s: Seconds, compute_s: Seconds, overhead_s: float) -> list[int]:
    """Algorithm 1 by enumerating every pair and every option; returns the cuts."""
    layers = len(pull_s)
    pairs = [(a, b) for a in range(1, layers) for b in range(a + 1, layers + 1)]
    if not pairs:
        return []

    def excess(previous: int, last: int, end: int) -> float:
        return overhead_s + sum(pull_s[last:end]) - sum(compute_s[previous:last])

    enough = [pair for pair in pairs if excess(0, *pair) >= 0]
    if enough:
        longest = max(sum(compute_s[:a]) for a, _ in enough)
        # With layers that cost nothing, several first cuts hide the same: the furthest.
        first = max(a for a, _ in enough if sum(compute_s[:a]) == longest)
        end = min(
            (b for a, b in enough if a == first),
            key=lambda b: overhead_s + sum(pull_s[first:b]),
        )
    else:
        first, end = max(pairs, key=lambda pair: (-pair[0], pair[1]))
    decision = [first, end]
    previous, last = first, end
    while last != layers:
        options = [x for x in range(last + 1, layers + 1) if excess(previous, last, x) >= 0]
        chosen = min(options, key=lambda x: excess(previous, last, x)) if options else layers
        decision.append(chosen)
        previous, last = last, chosen
    return decision[:-1]


def ibatch_from_last(pull_s: Seconds, compute_s: Seconds, overhead_s: float) -> list[int]:
    """Algorithm 1 mirrored, by enumeration: segments are set from the last layer back."""
    layers = len(pull_s)
    pairs = [(a, b) for b in range(1, layers) for a in range(b)]
    if not pairs:
        return []

    def slack(start: int, last: int, end: int) -> float:
        return overhead_s + sum(pull_s[last:end]) - sum(compute_s[start:last])

    def nearest(last: int, end: int) -> int:
        options = [a for a in range(last) if slack(a, last, end) >= 0]
        return min(options) if options else last - 1

    hidden = {b: sum(compute_s[nearest(b, layers) : b]) for b in range(1, layers)}
    last = max(hidden, key=lambda b: (hidden[b], b))
    cuts, end = [last], layers
    while nearest(last, end) > 0:
        last, end = nearest(last, end), last
        cuts.append(last)
    return sorted(cuts)


def ibatch_backward(push_s: Seconds, compute_s: Seconds, overhead_s: float) -> list[int]:
    """Algorithm 2 by enumerating every option; returns the cuts."""
    layers = len(push_s)
    candidates = []
    for first in range(2, layers + 1):
        decision, pushes, lowest = [first], 1, first
        while lowest != 1:
            busy = pushes * overhead_s + sum(push_s[lowest - 1 :])
            options = [x for x in range(1, lowest) if busy >= sum(compute_s[x - 1 : lowest - 1])]
            lowest = min(options) if options else lowest - 1
            decision.append(lowest)
            pushes += 1
        candidates.append(sorted(bound - 1 for bound in decision if bound > 1))
    if not candidates:
        return []
    return min(candidates, key=lambda cuts: backward_s(push_s, compute_s, overhead_s, cuts))


def mg_wfbp_backward(push_s: Seconds, compute_s: Seconds, overhead_s: float) -> list[int]:
    """Merge gradients by the three conditions as stated, over explicit groups."""
    layers = len(push_s)
    ready = {layer: sum(compute_s[layer - 1 :]) for layer in range(1, layers + 1)}
    groups, current, free = [], [layers], 0.0
    for layer in range(layers, 1, -1):
        start = max(free, ready[layer])
        end = start + overhead_s + sum(push_s[member - 1] for member in current)
        next_ready = ready[layer - 1]
        not_ended = next_ready < end
        not_started = next_ready < start
        waiting_is_cheaper = next_ready - start < overhead_s
        if not_ended and (not_started or waiting_is_cheaper):
            current.append(layer - 1)
        else:
            groups.append(current)
            free = end
            current = [layer - 1]
    groups.append(current)
    return sorted(min(group) - 1 for group in groups if min(group) > 1)
