"""Views: who reads one can read what it shows.

Transposes, reshapes, slices and chains of them compute nothing: an operator that reads a view is
told which part of the memory that is. So none of them is left.
"""

from __future__ import annotations

from workbench.graphs.operator_graph import OperatorGraph
from workbench.olpb.optimiser.rewriting import is_pure, without


def views(graph: OperatorGraph) -> OperatorGraph:
    """Without operators that make nothing."""
    empty = {at for at, one in enumerate(graph.operators) if not one.makes and is_pure(one)}
    return without(graph, empty)
