"""A network's backward pass cut into subtasks, and the seconds that it takes (OLPB, Sec. IV, VII).

Nodes of the library's graph (`library`) are cut into groups of l levels of operators, or into
layers, from loss to input. Operators of the loss are in none.

As the paper counts, gradients cost what the operators of a group cost, those of its parameters
included, once; a move costs its dispatch alone, and messages take a delay whatever their size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from workbench.olpb.algorithms.decoupled import cut
from workbench.olpb.algorithms.schedules import Schedule, batched, schedule
from workbench.olpb.costs.library import LibraryGraph, library_graph
from workbench.olpb.costs.subtasks import Node, Pool, Subtask
from workbench.olpb.costs.timing import Work

if TYPE_CHECKING:
    import torch


UNITS = ("operator", "layer")
"""Units of groups: levels of operators, or the library's layers (Table I), one after the other."""


NUMBER_BYTES = 4
"""Bytes of a number on a node: single precision."""

LOSS = Subtask(("loss",), 0.0, NUMBER_BYTES, 0)
"""The first element of a scan: the gradient that the loss starts with."""

_library = lru_cache(maxsize=32)(library_graph)


def subtasks(
    model: str | torch.nn.Module,
    batch_size: int = 1,
    unit: str = "operator",
    levels: int = 1,
    *,
    input_shape: tuple[int, ...] | None = None,
    operator_flops: float = 0.0,
) -> tuple[Subtask, ...]:
    """Elements of the scan for a model's backward pass, from the loss on.

    By a name in `UNITS` and l levels in a group; a model by name is traced once. See `priced` for
    FLOPs beside the arithmetic.
    """
    groups = parts(model, unit, levels, input_shape=input_shape)
    return priced(groups, batch_size, operator_flops=operator_flops)


class Part(NamedTuple):
    """A group at a batch of one."""

    flops: float  # backward
    operators: int
    held: int  # numbers that they make
    boundary_bytes: int  # towards the input
    parameter_bytes: int


def priced(
    parts: Iterable[Part], batch_size: int = 1, *, operator_flops: float = 0.0
) -> tuple[Subtask, ...]:
    """Elements of the scan of parts, from the loss to the input.

    FLOPs and gradients are in proportion to the batch; `operator_flops` are those in the time that
    an operator takes whatever its size.
    """
    groups = (
        Subtask(
            (f"group {number}",),
            batch_size * part.flops + operator_flops * part.operators,
            batch_size * part.boundary_bytes,
            part.parameter_bytes + NUMBER_BYTES * batch_size * part.held,
        )
        for number, part in enumerate(parts, 1)
    )
    return (LOSS, *groups)


def parts(
    model: str | torch.nn.Module,
    unit: str,
    levels: int,
    *,
    input_shape: tuple[int, ...] | None = None,
) -> tuple[Part, ...]:
    """Groups of a model, from loss to input; a module, whose layers may change, is traced again."""
    if isinstance(model, str):
        return _zoo_parts(model, unit, levels, input_shape)
    return _parts(library_graph(model, input_shape), unit, levels)


@lru_cache(maxsize=256)
def _zoo_parts(
    model: str, unit: str, levels: int, input_shape: tuple[int, ...] | None
) -> tuple[Part, ...]:
    return _parts(_library(model, input_shape), unit, levels)


def _parts(graph: LibraryGraph, unit: str, levels: int) -> tuple[Part, ...]:
    level = pl.Series(_level_of_each(graph, unit))
    nodes = graph.nodes.with_columns(group=(level - 1) // levels)
    is_operator, is_learnt = pl.col("kind") == "operator", pl.col("kind") == "parameter"
    reads = graph.edges.join(nodes.select("group", target="node"), on="target")
    last_read = reads.group_by(node="source").agg(last=pl.col("group").max())
    made = nodes.filter(is_operator).join(last_read, on="node")

    def crossing(group: int) -> int:
        """Numbers that are made before a group and read in it or later."""
        is_alive = (pl.col("group") < group) & (pl.col("last") >= group)
        return int(made.filter(is_alive)["numbers"].sum())

    inside = nodes.drop_nulls("layer")  # neither input nor loss
    rows = (
        inside.group_by("group", maintain_order=True)
        .agg(
            flops=pl.col("backward_flops").sum().cast(pl.Float64),
            operators=is_operator.sum(),
            held=pl.col("numbers").filter(is_operator).sum(),
            parameter_bytes=NUMBER_BYTES * pl.col("numbers").filter(is_learnt).sum(),
        )
        .sort("group", descending=True)
    )
    return tuple(
        Part(**sums, boundary_bytes=NUMBER_BYTES * crossing(group))
        for group, sums in zip(rows["group"], rows.drop("group").to_dicts(), strict=True)
    )


def _level_of_each(graph: LibraryGraph, unit: str) -> list[int]:
    """Level of each node, from 1: the longest path to it, or the number of its layer."""
    if unit == "layer":
        return graph.nodes["layer"].fill_null(graph.layers + 1).to_list()
    kinds, levels = graph.nodes["kind"].to_list(), [1] * len(graph.nodes)
    for source, target in graph.edges.sort("target").iter_rows():
        if kinds[source] == "operator":
            levels[target] = max(levels[target], levels[source] + 1)
    for source, target in graph.edges.iter_rows():
        if kinds[source] == "parameter":
            levels[source] = levels[target]
    return levels


@lru_cache(maxsize=256)
def plan(elements: int, nodes: int, scan: str) -> Schedule:
    """The exclusive scan of `elements` by runs; each is planned once."""
    return schedule(scan, elements, nodes, exclusive=True)


@lru_cache(maxsize=256)
def plan_batches(elements: int, nodes: int, scan: str) -> Schedule:
    """The scan of `elements` in batches, as in Alg. 2, which returns s[k] itself; planned once."""
    return batched(scan, elements, nodes)


def as_paper_counts(
    planned: Schedule, elements: Sequence[Subtask], *, local_first: bool = False
) -> Work:
    """Costs of a schedule as the paper counts: gradients of groups, and dispatches alone.

    `local_first`: each node computes the derivatives of its groups, which depend on nothing else
    (Sec. III), before the scan combines them; else when the scan has reached them.

    Deviation: when gradients are paid the paper does not say. Here a move combines Jacobians at no
    cost.
    """
    flops = [element.backward_flops for element in elements]
    moves = [0.0] * planned.work
    if local_first:
        return Work(moves, None, [0.0] * len(flops), flops)
    return Work(moves, None, flops)


def decoupled_s(elements: Sequence[Subtask], pool: Pool, modules: int) -> float:
    """Seconds of a backward pass of DPB: of its slowest module, and a message of its gradient.

    Modules are runs of subtasks on the pool's first nodes, cut so that the dearest costs the least.
    With late gradients none waits for another. The message takes its delay, which is the mean of
    random ones, too, and the time of the bytes where the node has a bandwidth. The module next to
    the input sends none.
    """
    flops = tuple(element.backward_flops for element in elements[1:])

    def seconds(run: range, node: Node) -> float:
        message_s = pool.delay_s + node.sending_s(elements[1 + run[-1]].boundary_bytes)
        sends = run.stop < len(flops)
        return sum(flops[at] for at in run) / node.flops_per_s + message_s * sends

    return max(map(seconds, _cut(flops, modules), pool.nodes))


_cut = lru_cache(maxsize=64)(cut)
