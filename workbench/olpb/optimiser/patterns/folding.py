"""Constant folding: what follows from constants alone is computed once, before any run.

Weights are constants, too, unless a step of training changes them.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.graphs.operator_graph import OperatorGraph
from workbench.olpb.optimiser.rewriting import is_pure


def folding(graph: OperatorGraph) -> OperatorGraph:
    """With operators on constants moved into the graph's preparation."""
    changing = {view.value for view in graph.inputs} | _written(graph)
    constant = graph.outside - changing
    constant |= {view.value for one in graph.preparation for view in one.makes}
    left, moved = [], list(graph.preparation)
    for one in graph.operators:
        if one.makes and is_pure(one) and all(view.value in constant for view in one.reads):
            constant |= {view.value for view in one.makes}
            moved.append(one)
        else:
            left.append(one)
    if len(left) == len(graph.operators):
        return graph
    return replace(graph, operators=tuple(left), preparation=tuple(moved))


def _written(graph: OperatorGraph) -> set[int]:
    """Values from outside that the graph changes: parameters by an update, and buffers."""
    made = {graph.values[view.value].storage for one in graph.operators for view in one.makes}
    updated = {
        view.value
        for one in graph.operators
        if one.phase == "update" or not is_pure(one)
        for view in one.reads
    }
    return updated | {at for at, value in enumerate(graph.values) if value.storage in made}
