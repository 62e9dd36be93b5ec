"""A scan's time, a chain's time and a cut into modules, in plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.subtasks import Pool
from workbench.olpb.costs.timing import Work


def scan_s(planned: Schedule, work: Work, pool: Pool) -> float:
    """Until the last node is done, with constant delays: move by move, message by message."""
    there = dict.fromkeys(range(planned.elements), 0.0)
    free = [0.0] * planned.nodes

    def arrives_s(value: int, node: int) -> float:
        home = planned.homes[value]
        if home == node:
            return there[value]
        bandwidth_bps = pool.nodes[home].bandwidth_bps
        bytes_s = 0.0 if bandwidth_bps is None else 8 * work.value_bytes[value] / bandwidth_bps
        return there[value] + pool.delay_s + bytes_s

    flops = iter(work.move_flops)
    for stage in planned.stages:
        for move in stage:
            start = max(
                free[move.node], arrives_s(move.left, move.node), arrives_s(move.right, move.node)
            )
            end = start + pool.dispatch_s + next(flops) / pool.nodes[move.node].flops_per_s
            free[move.node] = there[move.result] = end
    for element, prefix in enumerate(planned.prefixes):
        home = planned.homes[element]
        if prefix is not None:
            start = max(free[home], arrives_s(prefix, home))
            free[home] = start + work.after_flops[element] / pool.nodes[home].flops_per_s
    return max(free, default=0.0)


def as_paper_counts(
    planned: Schedule, flops: Sequence[float], learning: Sequence[float], moves: str
) -> tuple[list[float], list[float]]:
    """What moves cost, and elements afterwards: every value is a list of elements."""
    members = {element: [element] for element in range(planned.elements)}
    found = []
    for stage in planned.stages:
        for move in stage:
            right = members[move.right]
            members[move.result] = members[move.left] + right
            found.append(
                {
                    "each": flops[right[-1]],
                    "inputs": flops[right[-1]] - learning[right[-1]],
                    "all": sum(flops[one] for one in right),
                    "once": 0.0,
                }[moves]
            )
    after = {"once": list(flops), "inputs": list(learning)}.get(moves, [0.0] * planned.elements)
    return found, after


def dearest_module(costs: Sequence[float], modules: int) -> float:
    """Of all cuts into modules, none empty, the least cost of the dearest one."""
    cuts = combinations(range(1, len(costs)), modules - 1)
    return min(
        max(sum(costs[a:b]) for a, b in zip((0, *cut), (*cut, len(costs)), strict=True))
        for cut in cuts
    )
