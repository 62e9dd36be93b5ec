"""A plan of both passes as calls: those up to the loss, and those behind it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from workbench.memory.dataflow import Dataflow
from workbench.memory.executor import Call, Registers, arguments_of, call_of, operands_in
from workbench.memory.fitting.flow import LOSS, PassesFlow
from workbench.memory.lifetimes import lifetimes
from workbench.memory.optimiser.simplification import is_pure
from workbench.memory.recomputation import BudgetError, cost, unrolled, within
from workbench.memory.tracing.passes import Passes
from workbench.profiles.graph import View

STATE_BYTES = torch.get_rng_state().nbytes
"""Bytes of the random generator's state, kept for each operator that draws again."""


def fastest(passes: PassesFlow, room_bytes: int) -> Dataflow:
    """The plan of least seconds found whose bytes alive at once are within a room.

    Where none is found by seconds, which differ each time that they are measured, one is looked for
    by FLOPs and bytes, which do not. Raises `BudgetError`.
    """
    flow = passes.flow
    for order in passes.orders:
        if lifetimes(flow, order).bound_bytes <= room_bytes:
            return unrolled(flow, order)
    try:
        return recomputed(passes, flow, room_bytes)
    except BudgetError:
        found = recomputed(passes, unmeasured(flow), room_bytes)
    return replace(found, seconds=flow.seconds)


def unmeasured(flow: Dataflow) -> Dataflow:
    """The dataflow with costs that are the same each time."""
    return replace(flow, seconds=())


def recomputed(passes: PassesFlow, flow: Dataflow, room_bytes: int) -> Dataflow:
    """The plan of least work found within a room in which some steps run again."""

    def plan_of(again: Dataflow) -> tuple[int, Dataflow] | None:
        return (peak_bytes(again), again) if _is_repeatable(again) else None

    return within(flow, passes.orders, room_bytes, plan_of)


def is_met(passes: PassesFlow, room_bytes: int) -> bool:
    """Whether a plan is within a room, whatever its seconds."""
    flow = passes.flow
    if any(lifetimes(flow, order).bound_bytes <= room_bytes for order in passes.orders):
        return True
    try:
        recomputed(passes, unmeasured(flow), room_bytes)
    except BudgetError:
        return False
    return True


def _is_repeatable(flow: Dataflow) -> bool:
    """Whether random numbers are first drawn in order, and the module is written before the loss.

    The forward pass leaves the module and the generator as PyTorch's does.
    """
    graph = flow.graph
    assert graph is not None
    impure = [at for at, operator in enumerate(graph.operators) if not is_pure(operator)]
    ran = dict.fromkeys(step.operator for step in flow.steps if step.operator in impure)
    drawn = [number for number in ran if graph.operators[number].is_random]
    loss = next(at for at, step in enumerate(flow.steps) if step.name == LOSS)
    before = {step.operator for step in flow.steps[:loss]}
    early = {number for number in ran if graph.operators[number].phase == "forward"}
    return drawn == sorted(drawn) and early <= before


def peak_bytes(flow: Dataflow) -> int:
    """Most bytes alive at once, and states of the generator to draw again."""
    states_bytes = STATE_BYTES * len(_drawn_again(flow))
    return lifetimes(flow, range(len(flow.steps))).bound_bytes + states_bytes


def _drawn_again(flow: Dataflow) -> set[int]:
    """Operators that draw random numbers more than once."""
    assert flow.graph is not None
    operators, runs = flow.graph.operators, Counter(step.operator for step in flow.steps)
    return {at for at, one in enumerate(operators) if one.is_random and runs[at] > 1}


@dataclass
class Spent:
    """Seconds of all steps so far, and those of operators that ran again."""

    steps: int = 0
    step_s: float = 0.0
    again_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Programme:
    """Calls of both passes on registers of values; the loss lies between them."""

    passes: Passes
    flow: Dataflow
    forward: tuple[Call, ...]
    backward: tuple[Call, ...]
    kept: frozenset[int]  # values that the backward pass finds
    late: tuple[int, ...]  # and those from outside, without gradients of outputs
    read_again: tuple[int, ...]  # of these, those from which values are computed again
    bases: Mapping[int, View]
    spent: Spent

    @cached_property
    def peak_bytes(self) -> int:
        """Most bytes alive at once."""
        return peak_bytes(self.flow)

    @cached_property
    def seconds(self) -> float:
        """Seconds of its operators, as they were measured."""
        return float(cost(self.flow).sum())

    @cached_property
    def seconds_again(self) -> float:
        """Seconds of operators that run again."""
        seen, again = set[int](), 0.0
        for step in self.flow.steps:
            if step.operator in seen:
                again += self.flow.seconds[step.operator]
            seen.add(step.operator)
        return again


def compiled(passes: Passes, flow: Dataflow, bases: Mapping[int, View]) -> Programme:
    """Calls for the steps of a flow in their order; each frees values that are read no more."""
    graph, spent = passes.graph, Spent()
    loss = next(at for at, step in enumerate(flow.steps) if step.name == LOSS)
    places = lifetimes(flow, range(len(flow.steps))).places
    ending, drawn_again = _ending(flow), _drawn_again(flow)
    value_of: dict[int, int] = {}  # by buffer
    seen = set[int]()
    forward, backward = list[Call](), list[Call]()
    for at, step in enumerate(flow.steps):
        if step.operator == len(graph.operators):
            continue  # the user's own: the loss, the optimiser
        operator, again = graph.operators[step.operator], step.operator in seen
        seen.add(step.operator)
        inside = [view.value for view in operator.makes if view.value not in graph.outside]
        value_of |= dict(zip(step.makes, inside, strict=False))  # a workspace is no value
        over = None
        if len(step.makes) == 1:
            taken = [b for b in step.overwrites if places[b] == places[step.makes[0]]]
            over = value_of[taken[0]] if taken else None
        call = call_of(operator, bases, over, again=again)
        if step.operator in drawn_again:
            state = -1 - step.operator
            own = call_of(operator, bases, state=state)
            made = [view.value for view in operator.makes]
            call = own if again else _drawing(call, own, state, made)
        if again:
            call = _timed(call, spent)
        freed = [value_of[buffer] for buffer in ending.get(at, ()) if buffer in value_of]
        (forward if at < loss else backward).append(_freeing(call, freed) if freed else call)
    reads = _backward_reads(passes, flow, loss)
    return Programme(passes, flow, tuple(forward), tuple(backward), *reads, bases, spent)


def _backward_reads(
    passes: Passes, flow: Dataflow, loss: int
) -> tuple[frozenset[int], tuple[int, ...], tuple[int, ...]]:
    """Values made before the loss that steps behind it read; values from outside; read again."""
    graph = passes.graph
    tangents = {view.value for view in passes.tangents}
    seen = {step.operator for step in flow.steps[:loss]}
    made, kept = set[int](), set[int]()
    late, read_again = dict[int, None](), dict[int, None]()
    for step in flow.steps[loss:]:
        if step.operator == len(graph.operators):
            continue
        operator, again = graph.operators[step.operator], step.operator in seen
        seen.add(step.operator)
        operands = operands_in(arguments_of(operator, again=again))
        read = dict.fromkeys(operator.reads[at].value for at in operands)
        for value in [value for value in read if value not in made and value not in tangents]:
            if value not in graph.outside:
                kept.add(value)
                continue
            late[value] = None
            if again:
                read_again[value] = None
        made |= {view.value for view in operator.makes}
    return frozenset(kept), tuple(late), tuple(read_again)


def _ending(flow: Dataflow) -> dict[int, list[int]]:
    """Buffers to free, by their last step."""
    ending: dict[int, list[int]] = {}
    for buffer, readers in enumerate(flow.readers):
        if buffer not in flow.kept:
            last = max(readers, default=int(flow.maker[buffer]))
            ending.setdefault(last, []).append(buffer)
    return ending


def _timed(call: Call, spent: Spent) -> Call:
    def run(known: Registers) -> None:
        began_s = time.perf_counter()
        call(known)
        spent.again_s += time.perf_counter() - began_s

    return run


def _freeing(call: Call, values: Sequence[int]) -> Call:
    def run(known: Registers) -> None:
        call(known)
        for value in values:
            del known[value]

    return run


def _drawing(call: Call, own: Call, state: int, values: Sequence[int]) -> Call:
    """A call that draws by `own`, from a state that is kept under a number for later draws.

    Another thread may draw from PyTorch's generator in between. `call` draws from that one only to
    leave it as it would be; what comes of it is let go of first, and is the same without threads.
    """

    def first(known: Registers) -> None:
        with _DRAWING:
            known[state] = torch.get_rng_state()
            call(known)
        for value in values:
            del known[value]
        own(known)

    return first


_DRAWING = threading.Lock()
"""Held from the look at the generator's state until that has gone on: two draws never share it."""
