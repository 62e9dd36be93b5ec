"""Chen's segments: results that cross their ends stay, all others are computed again, once.

Chen, Xu, Zhang and Guestrin 2016, *Training Deep Nets with Sublinear Memory Cost*: n layers lie in
√n segments of equal length; before its backward pass the forward pass of each but the last runs a
second time. A baseline: nobody asks what a buffer's bytes or its making cost.

Deviation: segments are of operators, and what must not run again stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isqrt

from workbench.memory.dataflow import Dataflow
from workbench.memory.recomputation import unrolled


def chen(flow: Dataflow, order: Sequence[int], segments: int | None = None) -> Dataflow:
    """The dataflow whose segments run again, in order; by default √n segments."""
    forward = [step for step in order if flow.steps[step].phase == "forward"]
    length = max(1, ceil(len(forward) / (segments or max(1, isqrt(len(forward))))))
    segment_of = {step: at // length for at, step in enumerate(forward)}
    ran: list[int] = []
    again, closed = {segment_of[step] for step in forward[-1:]}, set[int]()
    for step in order:
        current = flow.steps[step]
        if step not in segment_of:
            makers = {int(flow.maker[buffer]) for buffer in current.reads} & segment_of.keys()
            for segment in sorted({segment_of[maker] for maker in makers} - again):
                again.add(segment)
                ran += [
                    operator
                    for operator in ran
                    if segment_of.get(operator) == segment and operator not in closed
                ]
        ran.append(step)
        closed.update(current.after)
        if current.is_random or current.after:
            closed.add(step)
    return unrolled(flow, ran)
