"""Seconds of each operator on this machine, and bytes that it allocates beside its results.

Each is run alone, on numbers made for it: that needs no more memory than one operator does.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psutil
import torch
from torch import Tensor

from workbench.memory.executor import Call, Registers, call_of, placed, span
from workbench.memory.measured import allocations
from workbench.profiles.graph import Operator, OperatorGraph, View
from workbench.profiles.recorder import takes_pivots

ENOUGH_S, LEAST_RUNS, MOST_RUNS = 2e-3, 2, 5
"""Seconds that an operator is timed for, at least, and its fewest and most runs."""
DRAWN = 1_000_003
"""Numbers drawn for an operand; a larger one repeats them. A prime, so that its rows differ."""


@dataclass(frozen=True)
class Profile:
    """Measurements of a graph's operators."""

    seconds: tuple[float, ...]
    workspace_bytes: tuple[int, ...]  # most bytes beside the results
    digest: str  # of the graph


def profiled(graph: OperatorGraph, bases: Mapping[int, View], *, timed: bool = True) -> Profile:
    """Run each operator that makes something alone, and one of those that are alike.

    `bases` are the forms in which values are held. The random generator is left as it was. Without
    `timed` only bytes are counted, and seconds are 0.
    """
    kinds: dict[Any, int] = {}
    alike: list[Operator] = []
    which = list[int]()
    for operator in graph.operators:
        forms = [replace(bases[view.value], value=0) for view in operator.reads]
        looks = [replace(view, value=0) for view in operator.reads]
        values = [view.value for view in operator.reads]
        same = [values.index(value) for value in values]
        kind = (operator.function, repr((operator.arguments, forms, looks, same)))
        if kind not in kinds and operator.makes:
            kinds[kind] = len(alike)
            alike.append(operator)
        which.append(kinds.get(kind, -1))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        peaks = allocations(_alone(graph, alike, bases))
        runs = _alone(graph, alike, bases) if timed else ()
        seconds = list(map(_seconds, runs)) or [0.0] * len(alike)
    made = [
        sum(graph.values[v.value].storage_bytes for v in operator.makes)
        for operator in graph.operators
    ]
    workspace = [
        0 if kind < 0 else max(0, peaks[kind] - size)
        for kind, size in zip(which, made, strict=True)
    ]
    took = tuple(0.0 if kind < 0 else seconds[kind] for kind in which)
    return Profile(took, tuple(workspace), digest_of(graph))


def workspace_bytes(graph: OperatorGraph) -> int:
    """Return the most that an operator of a graph allocates on this machine, its results included.

    Each kind of operator runs once, alone, on numbers made for it; one that has no room in this
    machine's memory counts by its results.
    """
    bases = {view.value: view for operator in graph.operators for view in operator.makes}
    for operator in graph.operators:
        for view in operator.reads:
            bases.setdefault(view.value, view)
    made = [sum(view.size_bytes for view in operator.makes) for operator in graph.operators]
    read = [sum(view.size_bytes for view in operator.reads) for operator in graph.operators]
    machine_bytes = psutil.virtual_memory().total
    fitting = [at for at in range(len(made)) if made[at] + read[at] <= machine_bytes]
    some = replace(graph, operators=tuple(graph.operators[at] for at in fitting))
    beside = profiled(some, bases, timed=False).workspace_bytes
    taken = (made[at] + size for at, size in zip(fitting, beside, strict=True))
    return max((*taken, *made), default=0)


def digest_of(graph: OperatorGraph) -> str:
    """SHA-256 of a graph's operators, and of the forms of their operands and results."""
    seen = hashlib.sha256(repr((graph.parameters, graph.inputs, graph.outputs)).encode())
    for one in graph.operators:
        seen.update(repr((one.name, one.phase, one.reads, one.makes)).encode())
    return seen.hexdigest()


def _alone(
    graph: OperatorGraph, operators: Sequence[Operator], bases: Mapping[int, View]
) -> Iterator[Callable[[], object]]:
    """A call of each, on numbers that are freed before the next."""
    for operator in operators:
        yield partial(_run, call_of(operator, bases), _operands(graph, operator, bases))


def _run(call: Call, operands: Registers) -> None:
    call(dict(operands))


def _operands(
    graph: OperatorGraph, operator: Operator, bases: Mapping[int, View]
) -> dict[int, Tensor]:
    """Numbers between 0 and 1; zeros for integers, which may be places or classes."""
    operands = dict[int, Tensor]()
    for view in operator.reads:
        base = bases[view.value]
        dtype: torch.dtype = getattr(torch, base.dtype)
        reach = max(span(base), span(view) if view.dtype == base.dtype else 0)
        if dtype.is_floating_point or dtype.is_complex:
            memory = _drawn(reach, dtype)
        else:
            memory = torch.full((reach,), int(takes_pivots(operator.function)), dtype=dtype)
        written = graph.literals.get(view.value)
        operands[view.value] = placed(memory, base) if written is None else written
    return operands


def _drawn(count: int, dtype: torch.dtype) -> Tensor:
    """Numbers between 0 and 1, of which the first `DRAWN` are drawn and repeated."""
    memory = torch.empty(count, dtype=dtype)
    first = memory[:DRAWN]
    (torch.view_as_real(first) if dtype.is_complex else first).uniform_()
    for at in range(DRAWN, count, DRAWN):
        memory[at : at + DRAWN] = first[: count - at]
    return memory


def _seconds(run: Callable[[], object]) -> float:
    """Least seconds of some runs."""
    times = list[float]()
    while len(times) < LEAST_RUNS or (sum(times) < ENOUGH_S and len(times) < MOST_RUNS):
        began_s = time.perf_counter()
        run()
        times.append(time.perf_counter() - began_s)
    return min(times)
