"""Operator graphs: what the optimiser leaves of them, and how many operators networks have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from workbench import graphs
from workbench.checks import check_whole
from workbench.claims import paper_value
from workbench.experiments import Scaled, grid, sweep
from workbench.graphs.graph import Operator
from workbench.graphs.operator_graph import OperatorGraph

BATCH_SIZE = 100
"""Of the LeNet-like network; counts do not depend on it."""
TABLE1 = ("cifarnet", "squeezenet", "vgg16", "inception_v3")
NETWORKS = Scaled(
    smoke=("lenet5", "cifarnet"),
    default=("lenet5", *TABLE1, "resnet50", "mobilenet_v2", "googlenet"),
    paper=("lenet5", *TABLE1, "resnet50", "mobilenet_v2", "googlenet", "resnet152", "mask_rcnn"),
)
"""Those of Table I and others."""

OPTIMISER: dict[str, Any] = {
    "round": pl.Int64,
    "pattern": pl.String,
    "nodes": pl.Int64,
    "edges": pl.Int64,
    "nodes_removed_percent": pl.Float64,
    "edges_removed_percent": pl.Float64,
    "paper_nodes_removed_percent": pl.Float64,
    "paper_edges_removed_percent": pl.Float64,
}


def optimiser() -> pl.DataFrame:
    """What each pattern removes from a training step of the LeNet-like network (Sec. V-A).

    A row for the graph as traced, and one for each time that a pattern found something: ``round,
    pattern``, ``nodes`` and ``edges`` that are left, parameters and constants among them, and how
    much of the graph has been removed by then: ``nodes_removed_percent, edges_removed_percent``,
    and the paper's, ``paper_nodes_removed_percent, paper_edges_removed_percent``.

    Deviation: a step of SGD instead of Adagrad, at the granularity of PyTorch's operators. The
    library's tutorial gives the paper's counts, 201 nodes and 239 edges, for another network: a
    5x5 convolution of 32 channels and linear layers of 1,024 and 10.
    """
    from workbench.graphs.optimiser import optimise

    table = optimise(_lenet_like()).table

    def removed(count: str) -> pl.Expr:
        return (100 * (1 - pl.col(count) / pl.col(count).first())).alias(f"{count}_removed_percent")

    paper = {
        f"paper_{count}_removed_percent": pl.lit(paper_value(f"olpb.optimiser.{count}"))
        for count in ("nodes", "edges")
    }
    return table.with_columns(removed("nodes"), removed("edges"), **paper).cast(
        pl.Schema(OPTIMISER)
    )


def _lenet_like() -> OperatorGraph:
    """Training of the network that the paper describes, on images of MNIST and one-hot classes."""
    from torch import Tensor, nn

    class Loss(nn.Module):
        """Cross entropy of the network's probabilities."""

        def __init__(self) -> None:
            super().__init__()
            self.network = nn.Sequential(
                nn.Conv2d(1, 6, 1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(6, 16, 5, padding=2),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(16 * 7 * 7, 120),
                nn.ReLU(),
                nn.Linear(120, 84),
                nn.ReLU(),
                nn.Linear(84, 10),
                nn.Softmax(dim=1),
            )

        def forward(self, x: Tensor, classes: Tensor) -> Tensor:
            probabilities: Tensor = self.network(x)
            return -(classes * probabilities.log()).sum() / len(x)

    shapes = ((1, 28, 28), (10,))
    return graphs.trace(Loss(), shapes, BATCH_SIZE, training=True, loss=lambda found: found)


OPERATORS: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    "nodes": pl.Int64,
    "edges": pl.Int64,
    "operators": pl.Int64,
    "parameters": pl.Int64,
    "optimised_nodes": pl.Int64,
    "optimised_edges": pl.Int64,
    "optimised_operators": pl.Int64,
}


def operators(scale: str = "default", models: Sequence[str] | None = None) -> pl.DataFrame:
    """Nodes and edges of networks of the zoo, as traced and optimised.

    A row for inference and one for a step of training of each: ``model, training, nodes, edges``,
    and of the nodes how many are ``operators`` and ``parameters`` (others are inputs and
    constants); the same after `workbench.olpb.optimise`, which leaves the parameters.
    """
    chosen = NETWORKS.at(scale) if models is None else models
    points = grid(model=chosen, training=(False, True))
    return sweep("Operators", _counted, points, OPERATORS)


def _counted(model: str, training: bool, **_: object) -> dict[str, int]:
    from workbench.graphs.optimiser import optimise

    graph = graphs.trace(model, batch_size=2, training=training)  # one would be no batch to learn
    left = optimise(graph).graph
    kinds = dict(graph.nodes.group_by("kind").len().iter_rows())
    return {
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "operators": kinds["operator"],
        "parameters": kinds["parameter"],
        "optimised_nodes": len(left.nodes),
        "optimised_edges": len(left.edges),
        "optimised_operators": len(left.operators),
    }


GRAPH: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    "node": pl.Int64,
    "name": pl.String,
    "kind": pl.String,
    "phase": pl.String,
    "bytes": pl.Int64,
    "level": pl.Int64,
    "sources": pl.List(pl.Int64),
    "removed_by": pl.String,
}


def graph(model: str = "lenet5", training: bool = False, batch_size: int = 1) -> pl.DataFrame:
    """A network's graph as traced, and what the optimiser does with each of its nodes.

    A row each: ``model, training, node, name, kind, phase, bytes`` as in
    `workbench.graphs.OperatorGraph.nodes`; ``level``, the longest path to it; ``sources``, nodes
    that it reads from; ``removed_by``, the pattern that folded it, fused it into another or left it
    out, null for those that stay.
    """
    check_whole("batch_size", batch_size, 1)
    traced = graphs.trace(model, batch_size=batch_size, training=training)
    return (
        drawn(traced)
        .select(pl.lit(model).alias("model"), pl.lit(training).alias("training"), pl.all())
        .cast(pl.Schema(GRAPH))
    )


def drawn(traced: OperatorGraph) -> pl.DataFrame:
    """Any traced graph as `graph` shows one, without ``model`` and ``training``."""
    removed = _removed(traced)
    made = traced.nodes.filter(kind="operator")["node"].to_list()
    pattern = {made[at]: name for at, name in removed.items()}
    return _levelled(traced).with_columns(
        removed_by=pl.col("node").replace_strict(pattern, default=None, return_dtype=pl.String)
    )


def _levelled(graph: OperatorGraph) -> pl.DataFrame:
    """Nodes of a graph, with those that each reads from and the longest path to it."""
    reading: dict[int, list[int]] = {node: [] for node in graph.nodes["node"]}
    for source, target in graph.edges.iter_rows():
        reading[target].append(source)
    level: dict[int, int] = {}
    for node, sources in reading.items():
        level[node] = 1 + max(level[one] for one in sources) if sources else 0
    return graph.nodes.select(
        "node",
        "name",
        "kind",
        "phase",
        "bytes",
        pl.col("node").replace_strict(level, return_dtype=pl.Int64).alias("level"),
        pl.Series("sources", list(reading.values()), dtype=pl.List(pl.Int64)),
    )


def _removed(traced: OperatorGraph) -> dict[int, str]:
    """Operators, by number, that the optimiser removes, and the pattern that does it first."""
    from workbench.graphs.optimiser import PATTERNS

    numbers: dict[object, list[int]] = {}
    for at, one in enumerate(traced.operators):
        numbers.setdefault(_identity(one), []).append(at)
    found: dict[int, str] = {}
    graph, changed = traced, True
    while changed:
        changed = False
        for name, pattern in PATTERNS.items():
            before, graph = graph, pattern(graph)
            changed |= graph is not before
            left = set(map(_identity, graph.operators))
            gone = [one for one in map(_identity, before.operators) if one not in left]
            found = {at: name for one in gone for at in numbers[one]} | found
    return found


def _identity(operator: Operator) -> object:
    """What an operator is recognised by as patterns rewrite it: the value that it makes."""
    return operator.makes[0].value if operator.makes else operator.results


LEVELS: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    "level": pl.Int64,
    "phase": pl.String,
    "operators": pl.Int64,
    "alive_bytes": pl.Int64,
}


def levels(
    models: Sequence[str] = TABLE1, training: bool = True, batch_size: int = 10
) -> pl.DataFrame:
    """Operators by level, the longest path to them, and the bytes that have to be alive there.

    A row per model, level and phase, of the optimised graph: ``model, training, level, phase,
    operators``, and ``alive_bytes``, of all results made on this level or before and read on it or
    later; null beyond the first phase of a level. What does not follow from the input, such as
    normalisations' counters of batches, is left out.
    """
    points = grid(model=models)
    shared = {"training": training, "batch_size": check_whole("batch_size", batch_size, 1)}
    return sweep("Levels", _by_level, points, LEVELS, shared=shared)


def _by_level(model: str, training: bool, batch_size: int, **_: object) -> pl.DataFrame:
    from workbench.graphs.optimiser import optimise

    traced = graphs.trace(model, batch_size=batch_size, training=training)
    nodes = _levelled(optimise(traced).graph)
    following = set(nodes.filter(kind="input")["node"])
    for node, sources in nodes.select("node", "sources").iter_rows():
        following |= {node} if following.intersection(sources) else set()
    made = nodes.filter(pl.col("node").is_in(list(following)), kind="operator")
    level_of = dict(made.select("node", "level").iter_rows())
    last = dict(level_of)
    for target, sources in made.select("node", "sources").iter_rows():
        for source in following.intersection(sources):
            last[source] = max(last.get(source, 0), level_of[target])
    alive = [0] * (1 + max(level_of.values(), default=0))
    for node, level, bytes_ in made.select("node", "level", "bytes").iter_rows():
        for one in range(level, last[node] + 1):
            alive[one] += bytes_
    counted = (
        made.group_by("level", "phase", maintain_order=True)
        .len("operators")
        .sort("level", maintain_order=True)
    )
    first = pl.int_range(pl.len()).over("level") == 0
    bytes_alive = pl.col("level").replace_strict(dict(enumerate(alive)), return_dtype=pl.Int64)
    return counted.with_columns(alive_bytes=pl.when(first).then(bytes_alive))
