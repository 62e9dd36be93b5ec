"""The paper's figures and tables as charts: one function each, frame to altair chart."""

from workbench.olpb.paper.charts.graphs import graph, levels, optimiser
from workbench.olpb.paper.charts.learning import decoupled
from workbench.olpb.paper.charts.memory import (
    arena,
    planners,
    table2,
    table2_times,
    trade,
    trade_times,
)
from workbench.olpb.paper.charts.scans import (
    explanations,
    fig9,
    fig10,
    fig11,
    fig12,
    pays,
    rests_on,
    table1,
)

__all__ = [
    "arena",
    "decoupled",
    "explanations",
    "fig9",
    "fig10",
    "fig11",
    "fig12",
    "graph",
    "levels",
    "optimiser",
    "pays",
    "planners",
    "rests_on",
    "table1",
    "table2",
    "table2_times",
    "trade",
    "trade_times",
]
