"""Common subexpressions: what is computed twice from the same is computed once."""

from __future__ import annotations

from dataclasses import replace

from workbench.graphs.graph import Operator
from workbench.graphs.operator_graph import OperatorGraph
from workbench.olpb.optimiser.rewriting import instead_of, is_pure, without


def common(graph: OperatorGraph) -> OperatorGraph:
    """With the first of equal operators in the place of all."""
    seen: dict[object, Operator] = {}
    other: dict[int, int] = {}
    removed = set[int]()
    for at, one in enumerate(graph.operators):
        if not one.makes or not is_pure(one):
            continue
        read = (replace(view, value=other.get(view.value, view.value)) for view in one.reads)
        first = seen.setdefault((one.function, repr(one.arguments), tuple(read)), one)
        if first is not one:
            pairs = zip(one.makes, first.makes, strict=True)
            other |= {view.value: earlier.value for view, earlier in pairs}
            removed.add(at)
    return without(instead_of(graph, other), removed) if removed else graph
