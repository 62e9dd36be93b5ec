"""A graph for memory planning: steps, and the buffers that they read, make and overwrite.

A buffer is the memory of one result. Neither views are buffers, nor what is held outside of the
plan: inputs, parameters, and what is written into them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.profiles.graph import Operator, OperatorGraph, trained_statistics
from workbench.utils.checks import UserError, check_kind, check_whole

ALIGNMENT = 64
"""Bytes that buffers begin at a multiple of, as vector units and caches like it."""


@dataclass(frozen=True)
class Step:
    """One operator, and the buffers that it reads and makes, each once.

    Steps that it must run after, though it reads nothing of theirs, read what it writes into, or
    draw random numbers before it.
    """

    name: str
    phase: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    overwrites: tuple[int, ...] = ()  # reads whose memory its one result may take
    after: tuple[int, ...] = ()
    flops: int = 0
    operator: int = -1  # its number in the graph
    is_random: bool = False  # whether it gives something else when it runs again


class Held(NamedTuple):
    """A storage outside of the plan: a graph reads it, or its module holds it.

    Attributes
    ----------
    kind
        ``weight``, ``input`` or ``constant``. Of what is computed before all runs, only what runs
        read is a weight or a constant: what it was computed from, and on the way, is ``folded``.
        What no operator reads is ``unused``.
    is_written
        Whether runs write into it, so that an arena has a copy.
    """

    name: str
    kind: str
    size_bytes: int
    is_written: bool = False


@dataclass(frozen=True, eq=False)
class Dataflow:
    """Steps in an order in which they can run, and the bytes of each buffer.

    What is computed from weights before all runs counts as a weight that is held.
    """

    steps: tuple[Step, ...]
    sizes: NDArray[np.int64]
    kept: frozenset[int]  # buffers that stay to the end: what the graph returns
    held: tuple[Held, ...] = ()  # storages outside of the plan, each once
    graph: OperatorGraph | None = None  # its origin, to run it
    updated: Mapping[int, int] = field(default_factory=dict)  # results over values from outside
    seconds: tuple[float, ...] = ()  # measured of each operator, if at all

    @cached_property
    def maker(self) -> NDArray[np.int64]:
        """Step that makes each buffer."""
        maker = np.full(len(self.sizes), -1, np.int64)
        for number, step in enumerate(self.steps):
            maker[list(step.makes)] = number
        return maker

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kind of each buffer.

        By the phase that makes it, forward, backward or update: ``activation``, ``gradient`` and
        ``weight``; ``output``, if the graph returns it; ``workspace``, if no step reads it.
        """
        kinds = [_KINDS[self.steps[step].phase] for step in self.maker]
        for buffer, readers in enumerate(self.readers):
            if buffer in self.kept:
                kinds[buffer] = "output"
            elif not readers:
                kinds[buffer] = "workspace"
        return tuple(kinds)

    def held_bytes(self, kind: str | None = None) -> int:
        """Bytes held outside of the plan, of one kind or of all."""
        return sum(held.size_bytes for held in self.held if kind in (None, held.kind))

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Steps that read each buffer."""
        return _inverted([step.reads for step in self.steps], len(self.sizes))

    @cached_property
    def before(self) -> tuple[tuple[int, ...], ...]:
        """Steps that have to run before each step."""
        return tuple(
            tuple(sorted({int(self.maker[buffer]) for buffer in step.reads} | set(step.after)))
            for step in self.steps
        )

    @cached_property
    def behind(self) -> tuple[tuple[int, ...], ...]:
        """Steps that wait for each step."""
        return _inverted(self.before, len(self.steps))


def _inverted(lists: Sequence[Sequence[int]], count: int) -> tuple[tuple[int, ...], ...]:
    """Numbers of the lists that each number below `count` is in."""
    places: list[list[int]] = [[] for _ in range(count)]
    for place, numbers in enumerate(lists):
        for number in numbers:
            places[number].append(place)
    return tuple(map(tuple, places))


_KINDS = {"forward": "activation", "backward": "gradient", "update": "weight"}


def dataflow(graph: OperatorGraph, alignment: int = ALIGNMENT) -> Dataflow:
    """Steps and buffers of a graph; sizes are rounded up to a multiple of the alignment."""
    check_kind("graph", graph, OperatorGraph, "one that was traced")
    check_whole("alignment", alignment, 1)
    updated = _updated(graph)
    outside = graph.outside | updated.keys()
    buffers = {
        view.value: at
        for at, view in enumerate(
            view
            for operator in graph.operators
            for view in operator.makes
            if view.value not in outside
        )
    }
    steps: list[Step] = []
    reading: dict[int, list[int]] = {}  # steps that read a storage outside, or write into it
    writing: dict[int, list[int]] = {}
    for number, operator in enumerate(graph.operators):
        if not operator.makes:
            continue
        reads = tuple(dict.fromkeys(buffers[v.value] for v in operator.reads if v.value in buffers))
        read = _outside(graph, outside, (view.value for view in operator.reads))
        written = _outside(graph, outside, _written(operator, updated))
        earlier = {at for storage in written for at in reading.get(storage, ())}
        # Statistics of its own batch are inputs of a normalisation's gradient.
        if operator.name != "native_batch_norm_backward":
            earlier |= {at for storage in read for at in writing.get(storage, ())}
        if operator.is_random:  # draws from the generator that those before it have left
            earlier |= {at for at, step in enumerate(steps) if step.is_random}
        over = {operator.reads[at].value for at in operator.may_overwrite}
        steps.append(
            Step(
                operator.name,
                operator.phase,
                reads,
                tuple(buffers[v.value] for v in operator.makes if v.value in buffers),
                tuple(sorted(buffers[value] for value in over if value in buffers)),
                tuple(sorted(earlier)),
                operator.flops,
                number,
                operator.is_random,
            )
        )
        for storage in read:
            reading.setdefault(storage, []).append(len(steps) - 1)
        for storage in written:
            writing.setdefault(storage, []).append(len(steps) - 1)
    sizes = aligned([graph.values[number].storage_bytes for number in buffers], alignment)
    kept = frozenset(buffers[v.value] for v in graph.outputs if v.value in buffers)
    return Dataflow(tuple(steps), sizes, kept, _held(graph, buffers, updated), graph, updated)


def flow_of(graph: OperatorGraph | Dataflow, alignment: int = ALIGNMENT) -> Dataflow:
    """Dataflow of what a user gave: a graph, or a dataflow as it is."""
    check_whole("alignment", alignment, 1)
    return graph if isinstance(graph, Dataflow) else dataflow(graph, alignment)


def _written(operator: Operator, updated: Mapping[int, int]) -> Iterator[int]:
    """Values that an operator writes over, or makes."""
    yield from (updated.get(view.value, view.value) for view in operator.makes)
    yield from (view.value for view in trained_statistics(operator))


def _outside(graph: OperatorGraph, outside: Container[int], values: Iterable[int]) -> set[int]:
    """Storages outside of the plan that hold some of these values."""
    return {graph.values[value].storage for value in values if value in outside}


def aligned(sizes: ArrayLike, alignment: int) -> NDArray[np.int64]:
    """Sizes in bytes, rounded up to a multiple of the alignment."""
    return -(-np.asarray(sizes, np.int64) // alignment) * alignment


def _held(
    graph: OperatorGraph, buffers: Container[int], updated: Mapping[int, int]
) -> tuple[Held, ...]:
    """Storages that operators read and do not make, in the order of first reads; then the rest."""
    written = graph.written | {graph.values[value].storage for value in updated.values()}
    made_of_weights: dict[int, str] = {}  # before all runs, and of which
    for operator in graph.preparation:
        names = [
            made_of_weights.get(view.value) or _weight(graph, view.value) for view in operator.reads
        ]
        for view in operator.makes if any(names) else ():
            made_of_weights[view.value] = next(filter(None, names))
    held: dict[int, Held] = {}
    for value in (view.value for operator in graph.operators for view in operator.reads):
        about = graph.values[value]
        if value in buffers or value in updated or about.storage in held:
            continue
        weight = made_of_weights.get(value) or _weight(graph, value)
        kind = "weight" if weight else "input" if about.origin == "input" else "constant"
        is_written = about.storage in written
        held[about.storage] = Held(weight or about.name, kind, about.storage_bytes, is_written)
    for view in (
        view for operator in graph.preparation for view in (*operator.reads, *operator.makes)
    ):
        about = graph.values[view.value]
        if about.storage not in held:
            held[about.storage] = Held(about.name, "folded", about.storage_bytes)
    for about in graph.values:
        if about.name and about.origin != "input" and about.storage not in held:
            held[about.storage] = Held(about.name, "unused", about.storage_bytes)
    return tuple(held.values())


def _weight(graph: OperatorGraph, value: int) -> str:
    """Name of a value that is a parameter; empty for any other."""
    about = graph.values[value]
    return about.name if about.origin == "parameter" else ""


def _updated(graph: OperatorGraph) -> Mapping[int, int]:
    """Results of the update that are written where a parameter is, and which value that is.

    A parameter that is returned as it was stays.
    """
    stays = {view.value for view in graph.outputs}
    return {
        operator.makes[0].value: operator.reads[at].value
        for operator in graph.operators
        if operator.phase == "update" and len(operator.makes) == 1
        for at in operator.may_overwrite
        if graph.values[operator.reads[at].value].origin == "parameter"
        and operator.reads[at].value not in stays
    }


def check_order(flow: Dataflow, order: Sequence[int]) -> None:
    """Refuse an order that leaves out a step, or runs one before what it needs."""
    place = {step: at for at, step in enumerate(order)}
    if len(order) != len(flow.steps) or place.keys() != set(range(len(flow.steps))):
        raise UserError(f"the order has not each of the {len(flow.steps)} steps once")
    for step, earlier in enumerate(flow.before):
        late = [before for before in earlier if place[before] > place[step]]
        if late:
            raise UserError(f"the order runs step {step} before step {late[0]}, which it needs")
