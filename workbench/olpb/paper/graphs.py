"""Operator graphs: what the optimiser leaves of them, and how many operators networks have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import altair as alt
import polars as pl

from workbench import figures, memory
from workbench.figures import parts
from workbench.profiles.graph import OperatorGraph
from workbench.reproduction.claims import Answer, Cause, paper_value
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

COUNTS = ("nodes", "edges")
BATCH_SIZE = 100
"""Batch of the LeNet-like network; counts do not depend on it."""


def optimiser() -> pl.DataFrame:
    """Nodes and edges that each pattern leaves of a training step of a LeNet (Sec. V-A).

    A row for the graph as traced, and one for each time that a pattern found something: ``round,
    pattern``, ``nodes`` and ``edges`` that are left, parameters and constants among them, and how
    much of the graph has been removed by then: ``nodes_removed_percent, edges_removed_percent``,
    and the paper's, ``paper_nodes_removed_percent, paper_edges_removed_percent``.

    Deviation: a step of SGD instead of Adagrad, at the granularity of PyTorch's operators. The
    library's tutorial gives the paper's counts, 201 nodes and 239 edges, for another network: a
    5x5 convolution of 32 channels and linear layers of 1,024 and 10.
    """
    from workbench.memory.optimiser import optimise

    removed = {
        f"{count}_removed_percent": 100 * (1 - pl.col(count) / pl.col(count).first())
        for count in COUNTS
    }
    paper = {
        f"paper_{count}_removed_percent": pl.lit(paper_value(f"olpb.optimiser.{count}"))
        for count in COUNTS
    }
    return optimise(_lenet_like()).table.with_columns(**removed, **paper)


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
    return memory.trace(Loss(), shapes, BATCH_SIZE, training=True, loss=lambda loss: loss)


PATTERN_TITLES = {
    "normalisation into convolution": "fused: normalisation",
    "addition and ReLU into convolution": "fused: addition, ReLU",
    "common subexpressions": "computed twice",
}


def draw_optimiser(frame: pl.DataFrame) -> alt.FacetChart:
    """Percent of the graph that is left after each pattern; the paper's at the last as a ring."""
    drawn = pl.concat(
        frame.select(
            pattern=_numbered(),
            panel=pl.lit(count),
            count=pl.col(count),
            left=100 - pl.col(f"{count}_removed_percent"),
            before=100 - pl.col(f"{count}_removed_percent").shift(1, fill_value=0.0),
            paper=100 - pl.col(f"paper_{count}_removed_percent"),
        )
        for count in COUNTS
    )
    order = frame.select(_numbered()).to_series().to_list()
    base = alt.Chart().encode(
        y=alt.Y("pattern:N", sort=order, title=None, axis=alt.Axis(labelLimit=0))
    )
    left = alt.X("left:Q", title="% of the graph as traced", scale=alt.Scale(domain=[0, 100]))
    kept = base.mark_bar(color=figures.PALETTE[0]).encode(x=left)
    gone = base.mark_bar(color=figures.PALETTE[1]).encode(x=left, x2="before:Q")
    numbers = base.mark_text(align="right", dx=-4, color="white").encode(x=left, text="count:Q")
    paper = parts.paper_rings(base, x="paper:Q").transform_filter(
        alt.FieldEqualPredicate(field="pattern", equal=order[-1])
    )
    title = [
        "Training of the LeNet-like network, optimised",
        "orange: what a pattern removes",
        "rings: left in the paper, of its own graph",
    ]
    layers = [kept, gone, numbers, paper]
    chart = alt.LayerChart(data=drawn, layer=layers, height=26 * len(order))
    return parts.facets(chart, "panel", COUNTS, title)


def _numbered() -> pl.Expr:
    """A pattern's title, with its round where that is not the first."""
    title = pl.col("pattern").replace(PATTERN_TITLES)
    again = pl.format("{} (round {})", title, "round")
    return pl.when(pl.col("round") > 1).then(again).otherwise(title).alias("pattern")


def _removed_percent(count: str, frame: pl.DataFrame) -> Answer:
    """Share of nodes or edges that is gone in the end."""
    before, left = frame[count][0], frame[count][-1]
    removed = frame[f"{count}_removed_percent"][-1]
    return Answer(removed, f"{before} to {left}, of PyTorch's operators, SGD")


def _count(count: str, row: int, frame: pl.DataFrame) -> Answer:
    """Nodes or edges of the graph as traced, the first row, or as optimised, the last."""
    return Answer(float(frame[count][row]), "of PyTorch's operators, SGD")


COUNTED: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    **dict.fromkeys(("nodes", "edges", "operators", "parameters"), pl.Int64),
    **dict.fromkeys(("optimised_nodes", "optimised_edges", "optimised_operators"), pl.Int64),
}


def operators(models: Sequence[str]) -> pl.DataFrame:
    """Nodes and edges of networks of the zoo, as traced and optimised.

    A row for inference and one for a step of training of each: ``model, training, nodes, edges``,
    and of the nodes how many are ``operators`` and ``parameters`` (others are inputs and
    constants); the same after `workbench.memory.optimiser.optimise`, which leaves the parameters.
    """
    return sweep(_counted, grid(model=models, training=(False, True)), COUNTED, title="Operators")


def _counted(model: str, training: bool) -> dict[str, int]:
    from workbench.memory.optimiser import optimise

    graph = memory.trace(model, batch_size=2, training=training)  # one would be no batch to learn
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


_OPTIMISER_ANSWERS = {
    f"olpb.optimiser.{count}{which}": answer
    for count in COUNTS
    for which, answer in (
        ("", partial(_removed_percent, count)),
        ("_before", partial(_count, count, 0)),
        ("_after", partial(_count, count, -1)),
    )
}
OPTIMISER = Figure(
    id="optimiser",
    compute=optimiser,
    chart=draw_optimiser,
    answers=_OPTIMISER_ANSWERS,
    causes=dict.fromkeys(
        _OPTIMISER_ANSWERS,
        Cause(
            "data",
            "the graphs are of the paper's library, Owl, which cannot be had here. Its manual has "
            "the counts for its example lazy_mnist.ml, of one convolution and two linear layers, "
            "trained by Adagrad; the network that the paper describes has two and three, and a "
            "step of SGD of it has fewer of PyTorch's operators, with few constants to fold",
        ),
    ),
)

_NETWORKS = (
    *("lenet5", "cifarnet", "squeezenet", "vgg16", "inception_v3"),
    *("resnet50", "mobilenet_v2", "googlenet"),
)
OPERATORS = Figure(
    id="operators",
    compute=operators,
    sizes={
        "models": Scaled(
            smoke=("lenet5", "cifarnet"),
            default=_NETWORKS,
            paper=(*_NETWORKS, "resnet152", "mask_rcnn"),
        )
    },
)
