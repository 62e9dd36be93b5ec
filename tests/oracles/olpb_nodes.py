"""Times of scans and of decoupled modules, assignments and late gradients, in plain loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations_with_replacement

from torch import Tensor

from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.subtasks import Pool, Subtask
from workbench.olpb.costs.timing import Work


def scan_s(planned: Schedule, work: Work, pool: Pool) -> float:
    """Until the last node is done, with constant delays: move by move, message by message."""
    there = dict.fromkeys(range(planned.elements), 0.0)
    free = [0.0] * planned.nodes

    def make(stages: int) -> None:
        for element in range(planned.elements):
            if work.element_flops is not None and planned.made_after[element] == stages:
                home = planned.homes[element]
                free[home] += work.element_flops[element] / pool.nodes[home].flops_per_s
                there[element] = free[home]

    def arrives_s(value: int, node: int) -> float:
        home = planned.homes[value]
        if home == node:
            return there[value]
        bandwidth_bps = pool.nodes[home].bandwidth_bps
        bytes_s = 0.0
        if bandwidth_bps is not None and work.value_bytes is not None:
            bytes_s = 8 * work.value_bytes[value] / bandwidth_bps
        return there[value] + pool.delay_s + bytes_s

    flops = iter(work.move_flops)
    for number, stage in enumerate(planned.stages):
        make(number)
        for move in stage:
            start = max(
                free[move.node], arrives_s(move.left, move.node), arrives_s(move.right, move.node)
            )
            end = start + pool.dispatch_s + next(flops) / pool.nodes[move.node].flops_per_s
            free[move.node] = there[move.result] = end
    make(planned.steps)
    for element, prefix in enumerate(planned.prefixes):
        home = planned.homes[element]
        if prefix is not None:
            start = max(free[home], arrives_s(prefix, home))
            free[home] = start + work.after_flops[element] / pool.nodes[home].flops_per_s
    return max(free, default=0.0)


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
    """Least cost of the dearest of `modules` modules of a line of layers, by trying all cuts."""
    if modules == 1:
        return sum(costs)
    return min(
        max(sum(costs[:end]), dearest(costs[end:], modules - 1))
        for end in range(1, len(costs) - modules + 2)
    )
