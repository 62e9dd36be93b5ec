"""Levels of what a gradient passes through, and groups of several levels (OLPB, Sec. IV, Alg. 1).

An operator is one level above the highest that it reads from. With layers that begin with a matrix
as units, only an operator that multiplies with one is: activations, poolings and normalisation are
on the level before, and what precedes all matrices is on the first. Groups stand in a line,
whatever the branches: a value that a later group reads is alive at every boundary in between, and
its gradient passes through as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.profiles.graph import OperatorGraph

UNITS = ("operator", "matrix_layer")
"""Units: a level for every operator, or only for one that multiplies with a matrix."""
LEVELS = 2
"""l: levels in a group of OLPB, by default."""


@dataclass(frozen=True)
class Flow:
    """Operators that a gradient passes through, in the order in which they ran."""

    names: tuple[str, ...]
    weighted: tuple[bool, ...]  # those that multiply with a matrix
    sources: tuple[frozenset[int], ...]  # by operator, values of others that a gradient passes to
    makers: Mapping[int, int]  # by value, its operator
    outputs: frozenset[int]  # values that gradients start from


def flow(graph: OperatorGraph) -> Flow:
    """Flow of gradients in a graph of `workbench.memory.trace`, without its numbers.

    Every operator of the forward pass between a trained parameter and what it returns, or its loss,
    counts; a graph does not tell what is detached, which a tape does.
    """
    forward = [each for each in graph.operators if each.phase == "forward" and each.makes]
    carrying = {
        number
        for number, value in enumerate(graph.values)
        if any(graph.parameters[at].is_trained for at in value.parameters)
    }
    for operator in forward:
        if any(view.value in carrying for view in operator.reads):
            carrying |= {view.value for view in operator.makes}
    needed, kept = {view.value for view in graph.outputs}, []
    for operator in reversed(forward):
        if any(view.value in needed & carrying for view in operator.makes):
            needed |= {view.value for view in operator.reads}
            kept.append(operator)
    kept.reverse()
    makers = {view.value: at for at, operator in enumerate(kept) for view in operator.makes}
    return Flow(
        tuple(operator.name for operator in kept),
        tuple(operator.weighted for operator in kept),
        tuple(frozenset(view.value for view in each.reads).intersection(makers) for each in kept),
        makers,
        frozenset(view.value for view in graph.outputs).intersection(makers),
    )


@dataclass(frozen=True)
class Group:
    """Operators of a flow, by number, and the values alive at its end that carry a gradient."""

    operators: tuple[int, ...]
    boundary: tuple[int, ...]


def level_of_each(flow: Flow, unit: str = "operator") -> tuple[int, ...]:
    """Level of each operator, from 1: the longest path to it."""
    heights: list[int] = []
    for weighted, sources in zip(flow.weighted, flow.sources, strict=True):
        below = max((heights[flow.makers[value]] for value in sources), default=0)
        heights.append(below + (unit == "operator" or weighted))
    return tuple(max(level, 1) for level in heights)


def groups(flow: Flow, unit: str = "operator", levels: int = 1) -> tuple[Group, ...]:
    """Groups of some levels each, from the input to what gradients start from."""
    group_of = [(level - 1) // levels for level in level_of_each(flow, unit)]
    count = max(group_of, default=-1) + 1
    last_reads = dict.fromkeys(flow.outputs, count)
    for group, sources in zip(group_of, flow.sources, strict=True):
        for value in sources:
            last_reads[value] = max(last_reads.get(value, 0), group)
    operators: list[list[int]] = [[] for _ in range(count)]
    boundaries: list[list[int]] = [[] for _ in range(count)]
    for at, group in enumerate(group_of):
        operators[group].append(at)
    for value, maker in flow.makers.items():
        for group in range(group_of[maker], last_reads.get(value, 0)):
            boundaries[group].append(value)
    return tuple(map(Group, map(tuple, operators), map(tuple, boundaries)))


def olpb(flow: Flow, levels: int = LEVELS) -> tuple[Group, ...]:
    """Groups of l levels of operators, from the input to the loss."""
    return groups(flow, "operator", levels)


def bppsa(flow: Flow) -> tuple[Group, ...]:
    """Layers that begin with a matrix, each a group of its own (Wang et al. 2020).

    Deviation: a recorded pass does not tell other layers; the paper's figures have those of Table
    I.
    """
    return groups(flow, "matrix_layer", 1)
