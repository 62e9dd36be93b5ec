"""Planners of sharded training: the buckets with the shortest iteration, by stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from workbench.sharding.costs import Problem, iteration_s, lacking
from workbench.sharding.schedules import Plan

DDP_BYTES = 25 * 2**20
"""Default size of a bucket in PyTorch's DistributedDataParallel (Li et al. 2020)."""

PARTS = (1, 2, 4, 8, 16, 32)
"""Parts of a model in a bucket, as tried: all of it, a half, a quarter."""


def cuts(param_bytes: Sequence[float], bucket_bytes: float) -> tuple[int, ...]:
    """Cuts into buckets of at least this size, filled from the last layer on, as in DDP."""
    ends, held = list[int](), 0.0
    for layer in range(len(param_bytes), 1, -1):
        held += param_bytes[layer - 1]
        if held >= bucket_bytes and any(param_bytes[: layer - 1]):
            ends.append(layer - 1)
            held = 0.0
    return tuple(ends[::-1])


def plans(problem: Problem, stage: int) -> list[Plan]:
    """Candidates: one bucket, parts of several sizes, DDP's default, single layers."""
    sizes = problem.param_bytes.tolist()
    limits = [*(sum(sizes) / parts for parts in PARTS), DDP_BYTES, 0.0]
    tried = {cuts(sizes, limit) for limit in limits}
    return [
        Plan(stage=stage, cuts=each) for each in sorted(tried, key=lambda each: (len(each), each))
    ]


def fastest(problem: Problem, stage: int) -> Plan:
    """The plan with the shortest iteration of those for which the fewest nodes lack memory."""
    return min(
        plans(problem, stage), key=lambda plan: (lacking(problem, plan), iteration_s(problem, plan))
    )


Planner = Callable[[Problem], Plan]

PLANNERS: dict[str, Planner] = {
    "all-reduce": partial(fastest, stage=0),
    "zero-1": partial(fastest, stage=1),
    "zero-2": partial(fastest, stage=2),
    "zero-3": partial(fastest, stage=3),
}
