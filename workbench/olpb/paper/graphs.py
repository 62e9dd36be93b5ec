"""Operator graphs: what the optimiser leaves of them, and how many operators networks have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt
import polars as pl

from workbench import figures, graphs
from workbench.claims import Answer, Cause, paper_value
from workbench.experiments import Scaled, grid, sweep
from workbench.experiments.figure import Figure
from workbench.figures import parts
from workbench.graphs.graph import Operator
from workbench.graphs.operator_graph import OperatorGraph
from workbench.olpb.paper.titles import MB, model_title
from workbench.utils.checks import check_whole

COUNTS = ("nodes", "edges")
BATCH_SIZE = 100
"""Of the LeNet-like network; counts do not depend on it."""


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
    return graphs.trace(Loss(), shapes, BATCH_SIZE, training=True, loss=lambda loss: loss)


PATTERN_TITLES = {
    "normalisation into convolution": "fused: normalisation",
    "addition and ReLU into convolution": "fused: addition, ReLU",
    "common subexpressions": "computed twice",
}


def draw_optimiser(frame: pl.DataFrame) -> alt.FacetChart:
    """What is left of the graph after each pattern, in percent; the paper's is the grey line."""
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
    paper = base.mark_rule(color=parts.GREY, strokeDash=[4, 2], strokeWidth=1.5).encode(
        x="mean(paper):Q", y=alt.Y()
    )
    title = [
        "Training of the LeNet-like network, optimised",
        "orange: what a pattern removes",
        "grey: left in the paper, of its own graph",
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
    constants); the same after `workbench.olpb.optimise`, which leaves the parameters.
    """
    return sweep(_counted, grid(model=models, training=(False, True)), COUNTED, title="Operators")


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


def graph(model: str = "lenet5", training: bool = False, batch_size: int = 1) -> pl.DataFrame:
    """A network's graph as traced, and what the optimiser does with each of its nodes.

    A row each: ``model, training, node, name, kind, phase, bytes`` as in
    `workbench.graphs.OperatorGraph.nodes`; ``level``, the longest path to it; ``sources``, nodes
    that it reads from; ``removed_by``, the pattern that folded it, fused it into another or left it
    out, null for those that stay.
    """
    check_whole("batch_size", batch_size, 1)
    traced = graphs.trace(model, batch_size=batch_size, training=training)
    about = pl.lit(model).alias("model"), pl.lit(training).alias("training")
    return drawn(traced).select(*about, pl.all())


def drawn(traced: OperatorGraph) -> pl.DataFrame:
    """Any traced graph as `graph` shows one, without ``model`` and ``training``."""
    made = traced.nodes.filter(kind="operator")["node"].to_list()
    pattern = {made[at]: name for at, name in _removed(traced).items()}
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
        level[node] = max((1 + level[source] for source in sources), default=0)
    return graph.nodes.select(
        *("node", "name", "kind", "phase", "bytes"),
        pl.col("node").replace_strict(level, return_dtype=pl.Int64).alias("level"),
        pl.Series("sources", list(reading.values()), dtype=pl.List(pl.Int64)),
    )


def _removed(traced: OperatorGraph) -> dict[int, str]:
    """Operators, by number, that the optimiser removes, and the pattern that does it first."""
    from workbench.graphs.optimiser import PATTERNS

    removed: dict[object, str] = {}
    graph, before = traced, None
    while graph is not before:
        before = graph
        for name, pattern in PATTERNS.items():
            shown, graph = graph, pattern(graph)
            left = set(map(_identity, graph.operators))
            for operator in map(_identity, shown.operators):
                if operator not in left:
                    removed.setdefault(operator, name)
    made = enumerate(map(_identity, traced.operators))
    return {number: removed[identity] for number, identity in made if identity in removed}


def _identity(operator: Operator) -> object:
    """What an operator is recognised by as patterns rewrite it: the value that it makes."""
    return operator.makes[0].value if operator.makes else operator.results


VIEW, FUSED, FOLDED = (
    "view: read in its place",
    "fused into what follows",
    "computed before all runs",
)
STAYS, LEFT_OUT, SOURCE = "stays", "left out", "input, parameter, constant"
FATES = {
    STAYS: "#17315f",
    VIEW: "#9dbfe6",
    FUSED: "#e38b2c",
    FOLDED: "#2a7f74",
    LEFT_OUT: "#8f2f3c",
    SOURCE: "#c9c9c9",
}
"""Colours of nodes by what the optimiser does with them."""

_FATE_OF = {
    "views": VIEW,
    "constant folding": FOLDED,
    "normalisation into convolution": FUSED,
    "addition and ReLU into convolution": FUSED,
}


def draw_graph(frame: pl.DataFrame) -> alt.LayerChart:
    """A small network's graph: forward to the right, backward and update back below it.

    Columns are levels, those of the backward pass stretched to as many. What follows from
    parameters and constants alone stands above the operator that reads it first. What the optimiser
    removes has its own colour. A deep network's graph goes down the page instead.
    """
    nodes = _placed(frame)
    is_flat = nodes.filter(pl.col("y") >= _MOST_ACROSS).is_empty()
    if is_flat:
        nodes = nodes.rename({"x": "y", "y": "x"})
    beside = _FLAT if is_flat else _TALL
    ends = [
        [float(nodes[axis].min()) - before, float(nodes[axis].max()) + after]  # type: ignore[arg-type]
        for axis, (before, after) in beside.items()
    ]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(nice=False, domain=ends[0]))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(nice=False, reverse=True, domain=ends[1]))
    named = nodes.filter(pl.col("is_main")).with_columns(_short().alias("name"))
    text = alt.Chart(named).encode(x=x, y=y, text="name:N")
    names = (
        text.mark_text(baseline="top", dy=6, fontSize=8, lineBreak=" ", aria=False)
        if is_flat
        else text.mark_text(align="left", dx=6, fontSize=8, aria=False)
    )
    stay = int(frame["removed_by"].null_count())
    subject = f"{model_title(frame.row(0, named=True))}, {_phase(frame)}"
    title = [subject, f"{len(frame)} nodes, of which {stay} stay"]
    layers = [_lines(nodes, x, y), _dots(nodes, x, y), names]
    height = (_LANE_PX if is_flat else _ROW_PX) * (ends[1][1] - ends[1][0])
    return alt.LayerChart(layer=layers, height=height, title=title)


def _phase(frame: pl.DataFrame) -> str:
    return "a step of training" if frame["training"][0] else "inference"


_MOST_ACROSS = 14
"""Levels whose names have room beside each other."""
_LANE_PX, _ROW_PX = 110, 17
_FLAT = {"x": (0.5, 0.5), "y": (0.15, 0.3)}
_TALL = {"x": (0.1, 1.0), "y": (0.7, 0.7)}
"""Room around the nodes for their names, by the way that the levels go."""


def _lines(nodes: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    """Who reads whose result; from sources in a paler grey."""
    edges = (
        nodes.select(pl.col("sources").alias("node"), x2="x", y2="y", target="node")
        .explode("node")
        .drop_nulls("node")
        .join(nodes.select("node", "x", "y", "kind"), on="node")
        .sort("node", "target")
    )
    colour = (
        alt.when(alt.datum.kind == "operator")
        .then(alt.value(parts.GREY))
        .otherwise(alt.value("#cccccc"))
    )
    lines = alt.Chart(edges).mark_rule(strokeWidth=0.5, aria=False)
    return lines.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", color=colour)


def _dots(nodes: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    """Nodes, coloured by what the optimiser does with them."""
    present = [fate for fate in FATES if fate in set(nodes["fate"])]
    scale = alt.Scale(domain=present, range=[FATES[fate] for fate in present])
    dots = alt.Chart(nodes).mark_circle(size=36, opacity=1)
    return dots.encode(
        x=x,
        y=y,
        color=alt.Color("fate:N", title=None, scale=scale, legend=alt.Legend(columns=2)),
        tooltip=["name:N", "kind:N", "phase:N", "level:Q", "bytes:Q", "removed_by:N"],
    )


_SHORTER = {
    "max_pool2d_with_indices": "max_pool",
    "threshold_backward": "relu_backward",
    "native_batch_norm": "normalisation",
    "_backward_data": "_backward",
}


def _short() -> pl.Expr:
    """An operator's name, short enough to stand beside it."""
    name = pl.col("name").str.strip_chars("_")
    for long, short in _SHORTER.items():
        name = name.str.replace(long, short, literal=True)
    return name.str.replace_all("_", " ")


_BESIDE = 0.22
"""Of a column: between an operator and what it reads of parameters."""


def _placed(frame: pl.DataFrame) -> pl.DataFrame:
    """With a place for each node: ``x`` and ``y``; ``is_main``, if it follows from an input."""
    rows = {row["node"]: row for row in frame.iter_rows(named=True)}
    main = _following(rows)
    forward = [node for node in main if rows[node]["phase"] in (None, "forward")]
    others = [node for node in main if rows[node]["phase"] not in (None, "forward")]
    deep = max((rows[node]["level"] for node in forward), default=0)
    higher = max((rows[node]["level"] - deep for node in others), default=1)
    height = max(deep, higher - 1)
    place = _columns(rows, forward, 0, lambda level: level * height / max(deep, 1))
    place |= _columns(
        rows, others, 2, lambda level: height - (level - deep - 1) * height / max(higher - 1, 1)
    )
    for node in main:  # its parameters, and what follows from them alone
        waiting, slots = [*rows[node]["sources"]], 0
        while waiting:
            source = waiting.pop(0)
            if source in place:
                continue
            slots += 1
            x, y = place[node]
            place[source] = (x - _BESIDE * slots, y - 0.3 * (slots % 2))
            waiting += rows[source]["sources"]
    alone = [node for node in rows if node not in place]  # read by nothing that is shown
    beyond = min((x for x, _ in place.values()), default=0) - 2 * _BESIDE
    place |= {node: (beyond, at * height / len(alone)) for at, node in enumerate(alone)}
    fate = pl.col("removed_by").replace_strict(_FATE_OF, default=LEFT_OUT)
    fate = pl.when(pl.col("removed_by").is_null()).then(pl.lit(STAYS)).otherwise(fate)
    spots = [(node, float(x), float(y)) for node, (x, y) in place.items()]
    schema = {"node": pl.Int64, "x": pl.Float64, "y": pl.Float64}
    return frame.join(pl.DataFrame(spots, schema, orient="row"), on="node").with_columns(
        is_main=pl.col("node").is_in(main),
        fate=pl.when(pl.col("kind") == "operator").then(fate).otherwise(pl.lit(SOURCE)),
    )


def _following(rows: Mapping[int, Mapping[str, Any]]) -> list[int]:
    """The first input, and nodes that follow from it, in their order."""
    following = dict[int, None]()
    for node, row in rows.items():
        is_first = row["kind"] == "input" and not following
        if is_first or not following.keys().isdisjoint(row["sources"]):
            following[node] = None
    return list(following)


def _columns(
    rows: Mapping[int, Mapping[str, Any]],
    nodes: Sequence[int],
    first: int,
    height: Callable[[int], float],
) -> dict[int, tuple[float, float]]:
    """A column for each node, that of the deepest node that it reads from if it is free."""
    place: dict[int, tuple[float, float]] = {}
    taken: dict[int, set[float]] = {}
    level_of = {node: row["level"] for node, row in rows.items()}
    for node in sorted(nodes, key=lambda node: (level_of[node], node)):
        level = level_of[node]
        above = [source for source in rows[node]["sources"] if source in place]
        column = place[max(above, key=level_of.__getitem__)][0] if above else first
        used = taken.setdefault(level, set())
        while column in used:
            column += 1
        used.add(column)
        place[node] = (column, height(level))
    return place


NETWORKS_OF_TABLE1 = ("cifarnet", "squeezenet", "vgg16", "inception_v3")
BY_LEVEL: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    "level": pl.Int64,
    "phase": pl.String,
    **dict.fromkeys(("operators", "alive_bytes"), pl.Int64),
}


def levels(
    models: Sequence[str] = NETWORKS_OF_TABLE1, training: bool = True, batch_size: int = 10
) -> pl.DataFrame:
    """Operators by level, the longest path to them, and the bytes that have to be alive there.

    A row per model, level and phase, of the optimised graph: ``model, training, level, phase,
    operators``, and ``alive_bytes``, of all results made on this level or before and read on it or
    later; null beyond the first phase of a level. What does not follow from the input, such as
    normalisations' counters of batches, is left out.
    """
    shared = {"training": training, "batch_size": check_whole("batch_size", batch_size, 1)}
    return sweep(_by_level, grid(model=models), BY_LEVEL, title="Levels", shared=shared)


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
        for at in range(level, last[node] + 1):
            alive[at] += bytes_
    counted = made.group_by("level", "phase", maintain_order=True).len("operators")
    counted = counted.sort("level", maintain_order=True)
    first = pl.int_range(pl.len()).over("level") == 0
    bytes_alive = pl.col("level").replace_strict(dict(enumerate(alive)), return_dtype=pl.Int64)
    return counted.with_columns(alive_bytes=pl.when(first).then(bytes_alive))


PHASES = ("forward", "backward", "update")


def draw_levels(frame: pl.DataFrame) -> alt.ConcatChart:
    """Operators by level, and below the bytes that have to be alive there, a column per network."""
    models = frame["model"].unique(maintain_order=True).to_list()
    phases = [phase for phase in PHASES if phase in set(frame["phase"])]
    columns = [
        _levels_of(frame.filter(model=model), phases, is_first=at % 2 == 0)
        for at, model in enumerate(models)
    ]
    title = f"Operators and memory by level, {_phase(frame)}"
    return alt.concat(*columns, columns=2).properties(title=title)


def _levels_of(frame: pl.DataFrame, phases: Sequence[str], *, is_first: bool) -> alt.VConcatChart:
    drawn = (
        frame.sort("level", pl.col("phase").cast(pl.Enum(PHASES)))
        .with_columns(top=pl.col("operators").cum_sum().over("level"), end=pl.col("level") + 1)
        .with_columns(bottom=pl.col("top") - pl.col("operators"))
    )
    last = int(frame["level"].max()) + 1  # type: ignore[arg-type]
    x = alt.X("level:Q", title="level", scale=alt.Scale(domain=[0, last], nice=False))
    whole = alt.Axis(format="d", tickMinStep=1)
    counts = (
        alt.Chart(drawn, height=55, title=model_title(frame.row(0, named=True)))
        .mark_rect(aria=False, strokeWidth=0)
        .encode(
            x=x,
            x2="end:Q",
            y=alt.Y("bottom:Q", title="operators" if is_first else None, axis=whole),
            y2="top:Q",
            color=parts.colour("phase", phases),
        )
    )
    bytes_ = frame.drop_nulls("alive_bytes").select("level", mb=pl.col("alive_bytes") / MB)
    alive = (
        alt.Chart(bytes_, height=60)
        .mark_area(interpolate="step-after", color=parts.GREY, aria=False)
        .encode(x=x, y=alt.Y("mb:Q", title="MB alive" if is_first else None))
    )
    return alt.vconcat(counts, alive)


OPTIMISER = Figure(
    id="optimiser",
    compute=optimiser,
    chart=draw_optimiser,
    answers={f"olpb.optimiser.{count}": partial(_removed_percent, count) for count in COUNTS},
    causes={
        f"olpb.optimiser.{count}": Cause(
            "data",
            "201 nodes and 239 edges are what the manual of the paper's library, Owl, gives for "
            "its example lazy_mnist.ml, of one convolution and two linear layers, trained by "
            "Adagrad; the network that the paper describes has two and three, and a step of SGD of "
            "it is 88 nodes and 118 edges of PyTorch's, with few constants to fold",
        )
        for count in COUNTS
    },
)

_MORE = ("lenet5", *NETWORKS_OF_TABLE1, "resnet50", "mobilenet_v2", "googlenet")
OPERATORS = Figure(
    id="operators",
    compute=operators,
    sizes={
        "models": Scaled(
            smoke=("lenet5", "cifarnet"),
            default=_MORE,
            paper=(*_MORE, "resnet152", "mask_rcnn"),
        )
    },
)

GRAPH = Figure(id="graph", compute=graph, chart=draw_graph)

LEVELS = Figure(id="levels", compute=levels, chart=draw_levels)
