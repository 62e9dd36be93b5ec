"""What patterns share: who reads and makes values, and reading one in the place of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from workbench.graphs.graph import Operator, OperatorGraph, View, trained_statistics
from workbench.graphs.private import OpOverload
from workbench.graphs.recorder import seen_one_way, writes

Pattern = Callable[[OperatorGraph], OperatorGraph]
"""Returns an equal graph of fewer nodes; the same object where it finds nothing."""


def makers(graph: OperatorGraph) -> dict[int, int]:
    """Number of the operator that makes each value."""
    return {
        view.value: at for at, operator in enumerate(graph.operators) for view in operator.makes
    }


def reads(graph: OperatorGraph) -> Counter[int]:
    """How often each value is read, or returned."""
    counts = Counter(view.value for operator in graph.operators for view in operator.reads)
    counts.update(view.value for view in graph.outputs)
    return counts


def is_pure(operator: Operator) -> bool:
    """Whether it does nothing but return what follows from what it reads."""
    function = operator.function
    if not isinstance(function, OpOverload):
        return True
    return not (operator.is_random or writes(function) or trained_statistics(operator))


def without(graph: OperatorGraph, removed: Container[int]) -> OperatorGraph:
    """The graph without some operators, by number."""
    left = tuple(operator for at, operator in enumerate(graph.operators) if at not in removed)
    return graph if len(left) == len(graph.operators) else replace(graph, operators=left)


def instead_of(graph: OperatorGraph, other: Mapping[int, int]) -> OperatorGraph:
    """The graph with other values of the same form in the place of some, by number."""

    def now(view: View) -> View:
        value = view.value
        while value in other:
            value = other[value]
        return view if value == view.value else replace(view, value=value)

    def rewritten(one: Operator) -> Operator:
        if not any(view.value in other for view in one.reads):
            return one
        read = tuple(map(now, one.reads))
        return replace(one, reads=read, may_overwrite=seen_one_way(one.may_overwrite, read))

    operators = tuple(map(rewritten, graph.operators))
    return replace(graph, operators=operators, outputs=tuple(map(now, graph.outputs)))
