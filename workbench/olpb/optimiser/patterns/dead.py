"""Dead code: what nobody reads."""

from __future__ import annotations

from workbench.graphs.operator_graph import OperatorGraph
from workbench.olpb.optimiser.rewriting import is_pure, without


def dead(graph: OperatorGraph) -> OperatorGraph:
    """Without operators none of whose results is read by one that is needed, or returned."""
    needed = {view.value for view in graph.outputs}
    removed = set[int]()
    for at in reversed(range(len(graph.operators))):
        one = graph.operators[at]
        if is_pure(one) and not any(view.value in needed for view in one.makes):
            removed.add(at)
        else:
            needed |= {view.value for view in one.reads}
    return without(graph, removed)
