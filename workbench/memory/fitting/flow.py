"""Both passes of a module as a dataflow, with the user's loss and optimiser as steps of their own.

The loss reads what the module returns and makes the gradients of it, which stay while the backward
pass runs; the optimiser comes last. A kernel's workspace is one more buffer, so the bytes alive in
a plan are all that is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from workbench.memory.dataflow import Dataflow, Step, dataflow
from workbench.memory.executor import writing_form
from workbench.memory.fitting.profile import Profile
from workbench.memory.optimiser.simplification import is_pure
from workbench.memory.orders import best_first
from workbench.memory.tracing.passes import Passes
from workbench.profiles.graph import Operator, OperatorGraph

LOSS, END, UPDATE = "loss", "end", "optimiser"


class PassesFlow(NamedTuple):
    """Steps of both passes, and orders in which they may run for the first time."""

    flow: Dataflow
    orders: tuple[Sequence[int], ...]


def passes_flow(
    passes: Passes, profile: Profile, loss_bytes: int, optimizer_bytes: int
) -> PassesFlow:
    """Steps in the order: forward, loss, backward, optimiser; operators as in the graph.

    Bytes are those that the loss, in both directions, and the optimiser allocate. What draws random
    numbers may run again where it can draw from a generator of its own.
    """
    graph = passes.graph
    plain = dataflow(graph, 1)
    values = (view.value for operator in graph.operators for view in operator.makes)
    buffers = {value: at for at, value in enumerate(v for v in values if v not in graph.outside)}
    sizes = plain.sizes.tolist()

    def extra(size: int) -> int:
        sizes.append(size)
        return len(sizes) - 1

    tangents = {view.value: graph.values[view.value].storage_bytes for view in passes.tangents}
    tangent_buffers = {value: extra(size) for value, size in tangents.items()}
    steps = [_completed(step, graph, profile, tangent_buffers, extra) for step in plain.steps]
    number = len(graph.operators)
    read = dict.fromkeys(buffers[view.value] for view in passes.outputs if view.value in buffers)
    made = (*tangent_buffers.values(), extra(max(0, loss_bytes - sum(tangents.values()))))
    loss = Step(LOSS, "backward", tuple(read), made, operator=number, is_random=True)
    end = Step(END, "backward", tuple(tangent_buffers.values()), (), operator=number)
    update = Step(UPDATE, "backward", (), (extra(optimizer_bytes),), operator=number)
    early, late = _passes(plain, read)
    order = [*early, len(steps), *late, len(steps) + 1, len(steps) + 2]
    place = {step: at for at, step in enumerate(order)}
    moved = [[*steps, loss, end, update][at] for at in order]
    moved = [replace(step, after=tuple(sorted(place[at] for at in step.after))) for step in moved]
    flow = replace(
        plain,
        steps=tuple(moved),
        sizes=np.array(sizes, np.int64),
        seconds=(*profile.seconds, 0.0),
    )
    orders = {tuple(range(len(order))), tuple(best_first(_pinned(flow, len(early))))}
    return PassesFlow(_repeatable(flow), tuple(sorted(orders)))


def _completed(
    step: Step,
    graph: OperatorGraph,
    profile: Profile,
    tangents: dict[int, int],
    extra: Callable[[int], int],
) -> Step:
    """A step with the tangents that it reads, and a buffer for its workspace."""
    operator, workspace = graph.operators[step.operator], profile.workspace_bytes[step.operator]
    read = dict.fromkeys(tangents[v.value] for v in operator.reads if v.value in tangents)
    may_overwrite = (
        bool(step.overwrites)
        and not workspace
        and not operator.is_random  # drawn twice: see `_drawing`
        and writing_form(operator.function) is not None
    )
    return replace(
        step,
        reads=(*step.reads, *read),
        makes=(*step.makes, extra(workspace)) if workspace else step.makes,
        overwrites=step.overwrites if may_overwrite else (),
    )


def _passes(flow: Dataflow, returned: Iterable[int]) -> tuple[list[int], list[int]]:
    """Steps before the loss, and behind it.

    Before it are the module's forward pass, and all that buffers that are `returned` need: among
    them may be gradients that the module takes itself.
    """
    needed = {int(flow.maker[buffer]) for buffer in returned}
    for at in reversed(range(len(flow.steps))):
        if at in needed:
            needed |= set(flow.before[at])
    early, late = dict[int, None](), list[int]()
    for at, step in enumerate(flow.steps):
        is_forward = step.phase == "forward" and all(
            earlier in early for earlier in flow.before[at]
        )
        if is_forward or at in needed:
            early[at] = None
        else:
            late.append(at)
    return list(early), late


def _repeatable(flow: Dataflow) -> Dataflow:
    """The dataflow in which steps that draw random numbers from a generator may run again."""
    assert flow.graph is not None
    operators, steps = flow.graph.operators, list(flow.steps)
    random = {
        at
        for at, step in enumerate(steps)
        if step.is_random and step.name != LOSS and takes_generator(operators[step.operator])
    }
    for at in random:
        after = tuple(earlier for earlier in steps[at].after if earlier not in random)
        steps[at] = replace(steps[at], is_random=False, after=after)
    return replace(flow, steps=tuple(steps))


def takes_generator(operator: Operator) -> bool:
    """Whether a random operator draws from a generator that it is called with."""
    return any(argument.name == "generator" for argument in operator.function._schema.arguments)


def _pinned(flow: Dataflow, loss: int) -> Dataflow:
    """The dataflow whose loss waits for steps that must run before it, and whose end for all."""
    graph = flow.graph
    assert graph is not None
    once = [
        at
        for at, step in enumerate(flow.steps[:loss])
        if not is_pure(graph.operators[step.operator]) or not flow.kept.isdisjoint(step.makes)
    ]
    steps = list(flow.steps)
    steps[loss] = replace(steps[loss], after=tuple(once))
    for last in (-2, -1):
        steps[last] = replace(steps[last], after=tuple(range(len(steps) + last)))
    return replace(flow, steps=tuple(steps))
