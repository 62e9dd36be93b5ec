"""A network's backward pass cut into subtasks, and the seconds that it takes (OLPB, Sec. IV, VII).

Nodes of the library's graph (`library`) are cut by levels: groups of l levels of operators, or
layers. Elements of the scan are the gradient of the loss and then the groups, from loss to input.

As the paper counts, gradients cost what the operators of a group cost, those of its parameters
included, and messages take a delay alone. The paper does not say when that is paid; `MOVES` has the
readings. Operators of the loss are no subtask: a scan begins with the gradient of what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from workbench.olpb.algorithms.decoupled import cut
from workbench.olpb.algorithms.schedules import Schedule, schedule
from workbench.olpb.costs.library import LibraryGraph, library_graph
from workbench.olpb.costs.subtasks import Node, Pool, Subtask
from workbench.olpb.costs.timing import Work

if TYPE_CHECKING:
    import torch

    from workbench.olpb.algorithms import levels
    from workbench.olpb.algorithms.tape import Tape

UNITS = ("operator", "layer", "matrix_layer")
"""What a level is: of operators, of the library's layers, or of layers that each begin with a
matrix, as in `workbench.olpb.algorithms.levels`."""

MOVES = ("each", "inputs", "all", "once")
"""What a move costs, beside its dispatch.

each
    The gradients of the right-hand element's own group; of a combined one, of the last group in it.
inputs
    So, without the gradients of parameters; every group has those to do once, after the scan.
all
    The gradients of all groups in the right-hand element.
once
    Nothing; every group has its gradients to do once, after the scan.
"""
FREE = "once"
"""The one by which combining Jacobians costs nothing."""


@dataclass(frozen=True)
class Group(Subtask):
    """A subtask, and how much of its cost is gradients of parameters."""

    parameter_flops: float = 0.0


NUMBER_BYTES = 4
"""Of a number on a node: single precision."""

LOSS = Group(("loss",), 0.0, NUMBER_BYTES, 0)
"""The first element of a scan: the gradient that the loss starts with."""

_library = lru_cache(maxsize=32)(library_graph)


def subtasks(
    model: str | torch.nn.Module,
    batch_size: int = 1,
    unit: str = "operator",
    level: int = 1,
    *,
    input_shape: tuple[int, ...] | None = None,
    operator_flops: float = 0.0,
    number_flops: float = 0.0,
) -> tuple[Group, ...]:
    """Elements of the scan for a model's backward pass, from the loss on.

    Parameters
    ----------
    model, input_shape
        As for `workbench.graphs.trace`; each is traced once.
    batch_size
        FLOPs and gradients are in proportion to it.
    unit
        A name in `UNITS`.
    level
        l: levels in a group.
    operator_flops, number_flops
        FLOPs in the time that an operator takes whatever its size, and in what each number that it
        makes takes on top of its arithmetic.
    """
    found = parts(model, unit, level, input_shape=input_shape)
    return priced(found, batch_size, operator_flops=operator_flops, number_flops=number_flops)


class Part(NamedTuple):
    """A group at a batch of one.

    Backward FLOPs, and those of them for parameters; its operators, and the numbers that they make;
    bytes on its boundary towards the input, and of its parameters.
    """

    flops: float
    parameter_flops: float
    operators: int
    held: int
    boundary_bytes: int
    parameter_bytes: int
    names: tuple[str, ...] = ()


def priced(
    parts: Iterable[Part],
    batch_size: int = 1,
    *,
    operator_flops: float = 0.0,
    number_flops: float = 0.0,
) -> tuple[Group, ...]:
    """Elements of the scan of parts, from the loss to the input; see `subtasks`."""
    return (
        LOSS,
        *(
            Group(
                one.names,
                batch_size * (one.flops + number_flops * one.held) + operator_flops * one.operators,
                batch_size * one.boundary_bytes,
                one.parameter_bytes + NUMBER_BYTES * batch_size * one.held,
                batch_size * one.parameter_flops,
            )
            for one in parts
        ),
    )


@lru_cache(maxsize=256)
def parts(
    model: str | torch.nn.Module,
    unit: str,
    level: int,
    *,
    input_shape: tuple[int, ...] | None = None,
) -> tuple[Part, ...]:
    """Groups of a model, from loss to input."""
    graph = _library(model, input_shape)
    rows = graph.nodes.to_dicts()
    group_of = [(one - 1) // level for one in _levels(graph, unit)]
    count = max(group_of) + 1
    last_read = [-1] * len(rows)
    for source, target in graph.edges.iter_rows():
        last_read[source] = max(last_read[source], group_of[target])
    found: list[Part] = []
    for group in reversed(range(count)):
        mine = [row for row, one in zip(rows, group_of, strict=True) if one == group]
        mine = [row for row in mine if row["layer"] is not None]  # neither input nor loss
        if not mine:
            continue
        operators = [row for row in mine if row["kind"] == "operator"]
        learnt = [row for row in mine if row["kind"] == "parameter"]
        crossing = sum(
            row["numbers"]
            for row, one, read in zip(rows, group_of, last_read, strict=True)
            if row["kind"] == "operator" and one < group <= read
        )
        found.append(
            Part(
                float(sum(row["backward_flops"] for row in mine)),
                float(sum(row["backward_flops"] for row in learnt)),
                len(operators),
                sum(row["numbers"] for row in operators),
                NUMBER_BYTES * crossing,
                NUMBER_BYTES * sum(row["numbers"] for row in learnt),
                tuple(row["name"] for row in mine),
            )
        )
    return tuple(found)


def _levels(graph: LibraryGraph, unit: str) -> list[int]:
    """Level of each node, from 1: the longest path of units to it."""
    rows, reads = graph.nodes.to_dicts(), dict[int, list[int]]()
    for source, target in graph.edges.iter_rows():
        reads.setdefault(target, []).append(source)
    found = [1] * len(rows)
    for row in rows:
        node = row["node"]
        below = [one for one in reads.get(node, []) if rows[one]["kind"] == "operator"]
        if row["kind"] == "operator":
            for one in below:
                starts = {
                    "operator": True,
                    "layer": row["layer"] != rows[one]["layer"],
                    "matrix_layer": row["name"] in ("convolution", "dot"),
                }[unit]
                found[node] = max(found[node], found[one] + starts)
    for source, target in graph.edges.iter_rows():
        if rows[source]["kind"] == "parameter":
            found[source] = found[target]
    return found


def subtasks_of(
    tape: Tape, groups: Sequence[levels.Group], operator_flops: float = 0.0
) -> tuple[Group, ...]:
    """Elements of the scan of a recorded pass: the loss's gradient, and groups from the loss on.

    FLOPs as profiles count them: of products with matrices, two per multiply-add; and
    `operator_flops` for every operator, in whose time it is set up.
    """
    return (LOSS, *(_subtask(tape, group, operator_flops) for group in reversed(groups)))


def _subtask(tape: Tape, group: levels.Group, operator_flops: float) -> Group:
    calls = [tape.calls[at] for at in group.operators]
    read = {view.value: view.size_bytes for call in calls for view in call.operator.reads}
    numbers = sum(tape.sizes[value] for value in group.boundary)
    # A product for each of its operands that carries a gradient, but for a bias.
    products = [
        (call.operator.flops, call.operator.reads[at].value not in tape.makers)
        for call in calls
        for at in call.carrying
        if call.reads[at].dim() > 1
    ]
    return Group(
        tuple(call.name for call in calls),
        sum(flops for flops, _ in products) + operator_flops * len(calls),
        NUMBER_BYTES * numbers,
        sum(read.values()) * NUMBER_BYTES // 8,  # recorded in double precision
        float(sum(flops for flops, is_parameter in products if is_parameter)),
    )


@lru_cache(maxsize=256)
def plan(elements: int, nodes: int, scan: str) -> Schedule:
    """The exclusive scan of `elements`; each is planned once."""
    return schedule(scan, elements, nodes, exclusive=True)


def as_paper_counts(planned: Schedule, elements: Sequence[Group], moves: str = "each") -> Work:
    """What a schedule costs as the paper counts; see `MOVES`.

    Deviation: but for "once" the group next to the input is the right-hand side of no move
    of an exclusive scan, and what a move would cost for it is counted nowhere.
    """
    first = list(range(planned.elements)) + [0] * (len(planned.homes) - planned.elements)
    last = list(first)
    learning = [one.parameter_flops * (moves == "inputs") for one in elements]
    each = [one.backward_flops - later for one, later in zip(elements, learning, strict=True)]
    before = [0.0, *accumulate(each)]
    flops: list[float] = []
    for move in (one for stage in planned.stages for one in stage):
        first[move.result], last[move.result] = first[move.left], last[move.right]
        end = last[move.right]
        start = first[move.right] if moves == "all" else end
        flops.append(0.0 if moves == "once" else each[end] + before[end] - before[start])
    after = each if moves == "once" else learning
    return Work(flops, [0.0] * len(planned.homes), after)


def decoupled_s(elements: Sequence[Subtask], pool: Pool, modules: int) -> float:
    """Seconds of a backward pass of DPB: of its slowest module, and a message of its gradient.

    Modules are runs of subtasks on the pool's first nodes, cut so that the dearest costs the least.
    With late gradients none waits for another. The message takes its delay, which is the mean of
    random ones, too, and the time of the bytes where the node has a bandwidth.
    """
    flops = tuple(one.backward_flops for one in elements[1:])
    runs = _cut(flops, modules)
    seconds = [
        sum(flops[at] for at in run) / node.flops_per_s
        + _message_s(pool, node, elements[1 + run[-1]].boundary_bytes) * (modules > 1)
        for run, node in zip(runs, pool.nodes, strict=False)
    ]
    return max(seconds)


_cut = lru_cache(maxsize=64)(cut)


def _message_s(pool: Pool, node: Node, size_bytes: float) -> float:
    return pool.delay_s + (8 * size_bytes / node.bandwidth_bps if node.bandwidth_bps else 0.0)
