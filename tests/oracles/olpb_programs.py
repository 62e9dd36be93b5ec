"""Times of scans and of decoupled modules as longest paths; assignments and late gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations_with_replacement

from torch import Tensor

from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.subtasks import Pool, Subtask


def backward_s(
    plan: Schedule,
    pool: Pool,
    move_flops: Callable[[tuple[int, int], tuple[int, int]], float],
    value_bytes: Callable[[tuple[int, int]], float] = lambda span: 0.0,
    finishing_flops: Callable[[int], float] = lambda element: 0.0,
) -> float:
    """When the last node is done: every event waits for the latest of what it needs.

    Costs are those of spans of elements, first and last.
    """
    moves = [move for stage in plan.stages for move in stage]
    made_by = {move.result: at for at, move in enumerate(moves)}
    before: dict[int, int | None] = {}  # a node's move before a move
    last: dict[int, int] = {}
    for at, move in enumerate(moves):
        before[at] = last.get(move.node)
        last[move.node] = at

    @cache
    def span(value: int) -> tuple[int, int]:
        if value < plan.elements:
            return value, value
        move = moves[made_by[value]]
        return span(move.left)[0], span(move.right)[1]

    @cache
    def ended_s(at: int) -> float:
        move = moves[at]
        previous = before[at]
        starts = [0.0 if previous is None else ended_s(previous)]
        starts += [there_s(move.left, move.node), there_s(move.right, move.node)]
        flops = move_flops(span(move.left), span(move.right))
        return max(starts) + pool.dispatch_s + flops / pool.nodes[move.node].flops_per_s

    @cache
    def there_s(value: int, node: int) -> float:
        home = plan.homes[value]
        made_s = ended_s(made_by[value]) if value in made_by else 0.0
        if home == node:
            return made_s
        bandwidth_bps = pool.nodes[home].bandwidth_bps
        bytes_s = 8 * value_bytes(span(value)) / bandwidth_bps if bandwidth_bps else 0.0
        return made_s + pool.delay_s + bytes_s

    done_s = 0.0
    for node, one in enumerate(pool.nodes):
        now_s = ended_s(last[node]) if node in last else 0.0
        for element in range(plan.elements):
            prefix = plan.prefixes[element]
            if plan.homes[element] == node and prefix is not None:
                now_s = max(now_s, there_s(prefix, node))
                now_s += finishing_flops(element) / one.flops_per_s
        done_s = max(done_s, now_s)
    return done_s


def modules_s(
    forward_s: Sequence[float], backward_s: Sequence[float], delay_s: float, iterations: int
) -> list[list[float]]:
    """When each module's iterations end, by module."""
    count = len(forward_s)

    @cache
    def forward_ended(k: int, t: int) -> float:
        starts = [0.0]
        if k:
            starts.append(forward_ended(k - 1, t) + delay_s)
        if t:
            starts.append(ended(k, t - 1))
        return max(starts) + forward_s[k]

    @cache
    def ended(k: int, t: int) -> float:
        late = count - 1 - k
        if t < late:
            return forward_ended(k, t)
        starts = [forward_ended(k, t)]
        if late:
            starts.append(ended(k + 1, t - 1) + delay_s)
        return max(starts) + backward_s[k]

    return [[ended(k, t) for t in range(iterations)] for k in range(count)]


def best_runs(subtasks: Sequence[Subtask], pool: Pool) -> float | None:
    """Least sum of length^2 / speed of runs that fit, by trying all; None where none fit."""
    count, found = len(subtasks), None
    for cuts in combinations_with_replacement(range(count + 1), len(pool.nodes) - 1):
        ends = [0, *cuts, count]
        cost = 0.0
        for number, node in enumerate(pool.nodes):
            mine = subtasks[ends[number] : ends[number + 1]]
            room = node.memory_bytes
            if room is not None and sum(one.memory_bytes for one in mine) > room:
                cost = float("inf")
            cost += len(mine) ** 2 / node.flops_per_s
        if cost < float("inf") and (found is None or cost < found):
            found = cost
    return found


def late_descent(
    gradient: Callable[[int, Tensor], Tensor],
    start: Tensor,
    places: Sequence[slice],
    learning_rate: float,
    iterations: int,
    *,
    momentum: float = 0.0,
) -> list[Tensor]:
    """Weights before each iteration and after the last, gradient of batch s at the weights of s.

    `places` are the parts of the vector, module by module; `gradient` is of the whole vector.
    """
    weights, velocity = [start.clone()], [start[where] * 0 for where in places]
    for t in range(iterations):
        after = weights[t].clone()
        for k, where in enumerate(places):
            s = t - (len(places) - 1 - k)
            if s >= 0:
                velocity[k] = momentum * velocity[k] + gradient(s, weights[s])[where]
                after[where] -= learning_rate * velocity[k]
        weights.append(after)
    return weights


def dearest(costs: Sequence[float], modules: int) -> float:
    """Least cost of the dearest of so many modules of a line of layers, by trying all cuts."""
    if modules == 1:
        return sum(costs)
    return min(
        max(sum(costs[:end]), dearest(costs[end:], modules - 1))
        for end in range(1, len(costs) - modules + 2)
    )
