"""The least work of a chain's forward and backward pass within a budget, by all ways to do it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from workbench.memory.dataflow import Dataflow

State = tuple[frozenset[int], frozenset[int]]  # buffers that are there, steps that have run


def work(flow: Dataflow, step: int) -> float:
    """FLOPs of a step, and the bytes that it reads and makes."""
    one = flow.steps[step]
    return one.flops + sum(int(flow.sizes[b]) for b in (*one.reads, *one.makes))


def least_work(flow: Dataflow, budget: int) -> float | None:
    """Of all ways to run all steps within a budget; a step of the backward pass runs once."""
    start: State = (frozenset(), frozenset())
    known = {start: 0.0}
    waiting = [(0.0, 0, start)]
    number = 0
    while waiting:
        done, _, state = heapq.heappop(waiting)
        if done > known[state]:
            continue
        if len(state[1]) == len(flow.steps):
            return done
        for more, following in moves(flow, state, budget):
            if done + more < known.get(following, float("inf")):
                known[following] = done + more
                number += 1
                heapq.heappush(waiting, (done + more, number, following))
    return None


def moves(flow: Dataflow, state: State, budget: int) -> Iterator[tuple[float, State]]:
    """Let go of a buffer, or run a step whose operands are there; work, and what comes of it."""
    there, ran = state
    for buffer in there - flow.kept:
        yield 0.0, (there - {buffer}, ran)
    for step, one in enumerate(flow.steps):
        if not set(one.reads) <= there or (one.phase != "forward" and step in ran):
            continue
        after = there | set(one.makes)
        if sum(int(flow.sizes[b]) for b in after) <= budget:
            yield work(flow, step), (after, ran | {step})
