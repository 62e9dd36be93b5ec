"""Costs of a scan by arithmetic: products of Jacobians, sparse as they are, and their bytes.

The first element is a gradient, so what is combined with it is a matrix-vector product, which is
what plain back-propagation does; any other move multiplies two matrices. After the scan every node
computes the gradients of its own parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.memory import trace
from workbench.olpb.algorithms.levels import flow, groups
from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.patterns import Pattern, group_pattern, passes
from workbench.olpb.costs.timing import Work
from workbench.profiles.graph import OperatorGraph
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import torch

GRADIENT_BYTES, INDEX_BYTES = 8, 4
"""Bytes of a double, and of its place in a matrix in CSR."""

Span = tuple[int, int]
"""First and last of elements that are combined, or a single one twice."""


@dataclass(eq=False)
class Elements:
    """Elements of a scan: the loss's gradient, 0, and the J^T of each group from the loss on.

    Attributes
    ----------
    gradient_numbers
        Of the loss's gradient.
    rows, parameter_flops
        By group, rows of its J^T, and FLOPs of the gradients of its weights.
    nonzeros
        Entries of matrices, by the span of what they combine.
    product_flops
        Of a product of two matrices, by the first element, that after which they meet, and the
        last.
    patterns
        Matrices whose products are still to be counted; none where all are.
    """

    gradient_numbers: int
    rows: tuple[int, ...]
    parameter_flops: tuple[int, ...]
    nonzeros: dict[Span, int]
    product_flops: dict[tuple[int, int, int], int] = field(default_factory=dict)
    patterns: dict[Span, Pattern] = field(default_factory=dict)

    def __len__(self) -> int:
        return 1 + len(self.rows)

    def combine_flops(self, first: int, middle: int, last: int) -> int:
        """FLOPs of combining elements `first` to `middle` - 1 with `middle` to `last`."""
        if first == 0:
            return 2 * self.nonzeros[middle, last]
        key = (first, middle, last)
        if key not in self.product_flops:
            left, right = self.patterns[first, middle - 1], self.patterns[middle, last]
            product, self.product_flops[key] = left.before(right)
            self.patterns.setdefault((first, last), product)
            self.nonzeros.setdefault((first, last), product.nonzeros)
        return self.product_flops[key]

    def size_bytes(self, first: int, last: int) -> int:
        """Bytes of combined elements: a gradient of doubles, or a matrix in CSR."""
        if first == 0:
            return GRADIENT_BYTES * (self.rows[last - 1] if last else self.gradient_numbers)
        rows, nonzeros = self.rows[last - 1], self.nonzeros[first, last]
        return (GRADIENT_BYTES + INDEX_BYTES) * nonzeros + INDEX_BYTES * (rows + 1)

    @property
    def sequential_flops(self) -> int:
        """FLOPs of plain back-propagation: a matrix-vector product a group, and parameters."""
        products = sum(2 * self.nonzeros[at, at] for at in range(1, len(self)))
        return products + sum(self.parameter_flops)


def elements_of(graph: OperatorGraph, unit: str, levels: int) -> Elements:
    """Elements of the groups of what gradients pass through in a graph."""
    through = flow(graph)
    known, parts = passes(graph, through), groups(through, unit, levels)
    flops = [
        one.flops * is_weighted
        for one, is_weighted in zip(known.operators, through.weighted, strict=True)
    ]
    befores = [(), *(part.boundary for part in parts[:-1])]
    made = [group_pattern(known, *ends) for ends in zip(parts, befores, strict=True)][::-1]
    patterns = {(at, at): pattern for at, pattern in enumerate(made, 1)}
    return Elements(
        sum(known.forms[value].numbers for value in parts[-1].boundary),
        tuple(pattern.rows for pattern in made),
        tuple(sum(flops[number] for number in part.operators) for part in reversed(parts)),
        {span: pattern.nonzeros for span, pattern in patterns.items()},
        patterns=patterns,
    )


def as_arithmetic_costs(planned: Schedule, elements: Elements) -> Work:
    """Costs of a schedule's moves and messages by arithmetic."""
    spans = planned.spans
    flops: list[float] = [
        elements.combine_flops(
            spans[move.left].start, spans[move.right].start, spans[move.right][-1]
        )
        for move in planned.moves
    ]
    sizes = [0.0] * len(planned.homes)
    for value in {message.value for message in planned.messages}:
        sizes[value] = float(elements.size_bytes(spans[value].start, spans[value][-1]))
    return Work(flops, sizes, [0.0, *elements.parameter_flops])


def network_elements(
    model: str | torch.nn.Module,
    batch_size: int = 1,
    unit: str = "operator",
    levels: int = 1,
    *,
    input_shape: tuple[int, ...] | None = None,
) -> Elements:
    """Elements of a network's scan, from its graph of inference; kept for models by name.

    Units are those of `workbench.olpb.algorithms.levels`, operators as PyTorch has them.
    """
    find = _zoo_elements if isinstance(model, str) else _elements
    return find(model, batch_size, unit, levels, input_shape)


def _elements(
    model: str | torch.nn.Module,
    batch_size: int,
    unit: str,
    levels: int,
    input_shape: tuple[int, ...] | None,
) -> Elements:
    graph = trace(model, input_shape, batch_size)
    if not graph.parameters:
        raise UserError(f"{graph.name} has no parameters, so there are no gradients to compute")
    return elements_of(graph, unit, levels)


_zoo_elements = lru_cache(maxsize=16)(_elements)
