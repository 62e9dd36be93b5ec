"""What a scan costs by arithmetic: products of Jacobians, sparse as they are, and their bytes.

The first element is a gradient, so what is combined with it is a matrix-vector product, which is
what plain back-propagation does; any other move multiplies two matrices. After the scan every node
computes the gradients of its own parameters.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.graphs import trace
from workbench.graphs.graph import OperatorGraph
from workbench.olpb.algorithms import levels
from workbench.olpb.algorithms.levels import Flow, groups
from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.patterns import Pattern, group_pattern, passes
from workbench.olpb.costs.timing import Work
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import torch

GRADIENT_BYTES = 8


class Elements:
    """Elements of a scan by arithmetic: how many numbers the loss's gradient has, and Jacobians.

    `patterns` and `parameter_flops`, of the gradients of weights, are by group from loss to input.
    """

    def __init__(self, graph: OperatorGraph, flow: Flow, unit: str, level: int) -> None:
        known, parts = passes(graph, flow), groups(flow, unit, level)
        befores = [(), *(part.boundary for part in parts[:-1])]
        made = [group_pattern(known, *ends) for ends in zip(parts, befores, strict=True)]
        self.patterns = tuple(reversed(made))
        self.gradient_numbers = sum(known.forms[value].numbers for value in parts[-1].boundary)
        self.parameter_flops = tuple(
            sum(known.operators[number].flops for number in part.operators if flow.weighted[number])
            for part in reversed(parts)
        )
        self._products: dict[tuple[int, int], Pattern] = {}
        self._flops: dict[tuple[int, int, int], int] = {}

    def __len__(self) -> int:
        return 1 + len(self.patterns)

    def product(self, first: int, last: int) -> Pattern:
        """Pattern of elements that are matrices, combined before or single."""
        return self.patterns[first - 1] if first == last else self._products[first, last]

    def combine_flops(self, first: int, middle: int, last: int) -> int:
        """FLOPs of combining elements `first` to `middle` - 1 with `middle` to `last`."""
        key = (first, middle, last)
        if key not in self._flops:
            right = self.product(middle, last)
            if first == 0:
                self._flops[key] = 2 * right.nonzeros
            else:
                combined, self._flops[key] = self.product(first, middle - 1).before(right)
                self._products.setdefault((first, last), combined)
        return self._flops[key]

    def size_bytes(self, first: int, last: int) -> int:
        """Of elements combined, as a message: a gradient of doubles, or a matrix in CSR."""
        if first == 0:
            numbers = self.patterns[last - 1].rows if last else self.gradient_numbers
            return GRADIENT_BYTES * numbers
        return self.product(first, last).size_bytes

    @property
    def sequential_flops(self) -> int:
        """Of plain back-propagation: a matrix-vector product for each group, and parameters."""
        return sum(2 * pattern.nonzeros for pattern in self.patterns) + sum(self.parameter_flops)


def as_arithmetic_costs(planned: Schedule, elements: Elements) -> Work:
    """What a schedule's moves and messages cost by arithmetic."""
    spans = planned.spans
    flops: list[float] = [
        elements.combine_flops(spans[move.left].start, *_ends(spans[move.right]))
        for move in planned.moves
    ]
    sizes = [0.0] * len(planned.homes)
    for value in {message.value for message in planned.messages}:
        sizes[value] = float(elements.size_bytes(*_ends(spans[value])))
    return Work(flops, sizes, [0.0, *elements.parameter_flops])


def _ends(span: range) -> tuple[int, int]:
    """First and last element."""
    return span[0], span[-1]


def network_elements(
    model: str | torch.nn.Module,
    batch_size: int = 1,
    unit: str = "operator",
    level: int = 1,
    *,
    input_shape: tuple[int, ...] | None = None,
) -> Elements:
    """Elements of a network's scan, from its graph of inference; kept for models by name.

    Units are those of `workbench.olpb.algorithms.levels`, operators as PyTorch has them.
    """
    find = _of_zoo if isinstance(model, str) else _elements
    return find(model, batch_size, unit, level, input_shape)


def _elements(
    model: str | torch.nn.Module,
    batch_size: int,
    unit: str,
    level: int,
    input_shape: tuple[int, ...] | None,
) -> Elements:
    graph = trace(model, input_shape, batch_size)
    if not graph.parameters:
        raise UserError(f"{graph.name} has no parameters, so there are no gradients to compute")
    return Elements(graph, levels.flow(graph), unit, level)


_of_zoo = lru_cache(maxsize=16)(_elements)
