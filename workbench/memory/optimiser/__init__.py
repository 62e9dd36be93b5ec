"""Equal graphs of fewer operators: patterns, applied until none finds anything (Zhao et al., V-A).

>>> from workbench import memory
>>> memory.optimise(memory.trace("lenet5")).table["nodes"].to_list()
[26, 22, 20]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import polars as pl

from workbench.memory.optimiser import fusion, simplification
from workbench.memory.optimiser.simplification import Pattern
from workbench.profiles.graph import OperatorGraph
from workbench.utils.checks import check_kind, choose

__all__ = ["PATTERNS", "Optimised", "Pattern", "optimise"]

PATTERNS: Mapping[str, Pattern] = {
    "neutral": simplification.neutral,
    "views": simplification.views,
    "common subexpressions": simplification.common,
    "dead code": simplification.dead,
    "normalisation into convolution": fusion.normalisation,
    "addition and ReLU into convolution": fusion.writing,
    "constant folding": simplification.folding,
}


class Optimised(NamedTuple):
    """An equal graph of fewer nodes, and what each pattern removed.

    The table has a row for each pattern that found something, each time: ``round``, ``pattern``,
    and ``nodes`` and ``edges`` that are left after it; its first row is the graph as it was.
    """

    graph: OperatorGraph
    table: pl.DataFrame


def optimise(graph: OperatorGraph, patterns: Iterable[str] = tuple(PATTERNS)) -> Optimised:
    """Optimise a graph of `workbench.memory.trace`, to a fixed point.

    Raises ValueError: a pattern that there is not; TypeError: no graph.
    """
    check_kind("graph", graph, OperatorGraph, "one that was traced: optimise(trace('lenet5'))")
    chosen = {name: choose("pattern", name, PATTERNS) for name in patterns}
    rows = [(0, "as traced", len(graph.nodes), len(graph.edges))]
    turn, changed = 0, True
    while changed:
        turn, changed = turn + 1, False
        for name, pattern in chosen.items():
            smaller = pattern(graph)
            if smaller is not graph:
                graph, changed = smaller, True
                rows.append((turn, name, len(graph.nodes), len(graph.edges)))
    return Optimised(
        graph, pl.DataFrame(rows, ["round", "pattern", "nodes", "edges"], orient="row")
    )
