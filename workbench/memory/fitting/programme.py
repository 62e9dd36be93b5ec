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
    graph = passes.graph
    life = lifetimes(flow, range(len(flow.steps)))
    ending = _ending(flow)
    value_of: dict[int, int] = {}
    drawn_again = _drawn_again(flow)
    calls: list[Call] = []
    spent = Spent()
    seen = set[int]()
    loss_at = 0
    late, kept, made_late = dict[int, None](), set[int](), set[int]()
    read_again = dict[int, None]()
    passed_loss = False
    tangents = {view.value for view in passes.tangents}
    for at, step in enumerate(flow.steps):
        if step.operator == len(graph.operators):
            if step.name == LOSS:
                loss_at, passed_loss = len(calls), True
            continue
        operator = graph.operators[step.operator]
        buffers = iter(step.makes)
        for view in operator.makes:
            if view.value not in graph.outside:
                value_of[next(buffers)] = view.value
        again = step.operator in seen
        seen.add(step.operator)
        if passed_loss:
            operands = operands_in(arguments_of(operator, again=again))
            needed = [operator.reads[at].value for at in operands]
            found = [value for value in needed if value not in made_late]
            outside = dict.fromkeys(v for v in found if v in graph.outside and v not in tangents)
            late |= outside
            read_again |= outside if again else {}
            kept |= {value for value in found if value not in graph.outside}
            made_late |= {view.value for view in operator.makes}
        over = None
        if len(step.makes) == 1:
            made = step.makes[0]
            taken = [b for b in step.overwrites if life.places[b] == life.places[made]]
            over = value_of[taken[0]] if taken else None
        call = call_of(operator, bases, over, again=again)
        if step.operator in drawn_again:
            state = -1 - step.operator
            own = call_of(operator, bases, state=state)
            made_now = [view.value for view in operator.makes]
            call = own if again else _drawing(call, own, state, made_now)
        if again:
            call = _timed(call, spent)
        freed = tuple(value_of[buffer] for buffer in ending.get(at, ()) if buffer in value_of)
        calls.append(_freeing(call, freed) if freed else call)
    forward, backward = tuple(calls[:loss_at]), tuple(calls[loss_at:])
    values = (frozenset(kept), tuple(late), tuple(read_again))
    return Programme(passes, flow, forward, backward, *values, bases, spent)


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
