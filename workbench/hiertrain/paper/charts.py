"""The paper's figures and tables as charts: one function each, frame to altair chart."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from workbench import datasets, figures
from workbench.figures import parts
from workbench.hiertrain.costs.problem import TIERS

# Titles of planners and models, in the order in which they are drawn.
PLANNER_TITLES = {
    "hiertrain": "HierTrain",
    "all_edge": "All-Edge",
    "all_cloud": "All-Cloud",
    "jointdnn": "JointDNN",
    "jointdnn_plus": "JointDNN+",
    "jalad": "JALAD",
}
MODEL_TITLES = {
    "alexnet_tiny": "AlexNet (Tiny ImageNet)",
    "lenet5_cifar": "LeNet-5 (CIFAR-10)",
    "vgg16": "VGG-16",
    "vgg19": "VGG-19",
    "googlenet": "GoogLeNet",
    "resnet34": "ResNet-34",
}
SHARING_TITLES = {
    "none": "a link for every pair",
    "interfaces": "shared interfaces",
}
EXPLANATION_TITLES = {"flops_only": "FLOPs only", "batch_32": "batch of 32"}
_BANDWIDTH = "edge-cloud bandwidth in Mbit/s"


def fig6(frame: pl.DataFrame) -> alt.LayerChart:
    """HierTrain's iteration by the cost model (line) and simulated (points)."""
    base = alt.Chart(frame.with_columns(pl.col("sharing").replace_strict(SHARING_TITLES))).encode(
        x=_bandwidth()
    )
    line = base.mark_line(color=figures.INK, strokeWidth=1).encode(y="predicted_s:Q")
    order = list(SHARING_TITLES.values())
    points = base.mark_point(filled=True, size=45).encode(
        y=alt.Y("simulated_s:Q", title="seconds an iteration", scale=alt.Scale(zero=True)),
        color=parts.colour("sharing", order),
        shape=parts.shape("sharing", order),
    )
    off = frame.filter(planner="hiertrain").group_by("sharing", maintain_order=True)
    farthest = [
        f"{SHARING_TITLES[sharing]}: up to {percent:+.1f} % off the model"
        for sharing, percent in off.agg(
            pl.col("difference_percent").sort_by(pl.col("difference_percent").abs()).last()
        ).iter_rows()
    ]
    more = ["line: cost model, points: simulated", *farthest]
    title = _title(frame, "HierTrain, by cost model and simulated", more=more)
    return (line + points).properties(height=200, title=title)


def fig7(frame: pl.DataFrame) -> alt.Chart:
    """Seconds of an iteration against bandwidth, a line per planner."""
    return (
        alt.Chart(_titled(frame))
        .mark_line(point=True)
        .encode(
            x=_bandwidth(),
            y=alt.Y("total_s:Q", title="seconds an iteration"),
            **figures.series("planner", _present(frame)),
        )
        .properties(height=200, title=_title(frame, "an iteration", more=["(cost model)"]))
    )


fig8 = fig9 = fig10 = fig7


def fig11(frame: pl.DataFrame) -> alt.Chart:
    """Seconds of HierTrain's iteration against bandwidth, a line per number of cores."""
    order = [f"{count} CPU" for count in sorted(frame["edge_cores"].unique())]
    return (
        alt.Chart(frame.with_columns(cores=pl.format("{} CPU", "edge_cores")))
        .mark_line(point=True)
        .encode(
            x=_bandwidth(),
            y=alt.Y("total_s:Q", title="seconds an iteration"),
            **figures.series("cores", order),
        )
        .properties(
            height=200,
            title=_title(
                frame, "HierTrain by CPUs of the edge", cores=False, more=["(cost model)"]
            ),
        )
    )


def sharing(frame: pl.DataFrame) -> alt.FacetChart:
    """Simulated seconds of every planner, with links of their own and with shared ones."""
    model = pl.col("model").replace(MODEL_TITLES).str.split(" (").list.first()
    drawn = _titled(
        frame.with_columns(
            panel=pl.format("{}: {}", model, pl.col("sharing").replace_strict(_PANELS))
        )
    )
    order = drawn["panel"].unique(maintain_order=True).to_list()
    lines = (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=_bandwidth(),
            y=alt.Y("simulated_s:Q", title="seconds an iteration"),
            **figures.series("planner", _present(frame)),
        )
        .properties(height=150)
    )
    title = ["One iteration (simulated)", _setting(frame), overtaken(frame)]
    return parts.facets(lines, "panel", order, title).resolve_scale(y="independent")


_PANELS = {"none": "own links", "interfaces": "shared"}


def overtaken(frame: pl.DataFrame) -> str:
    """Say where, with shared interfaces, another planner is faster than HierTrain."""
    shared = frame.filter(sharing="interfaces").pivot(
        on="planner", index=["model", "edge_cloud_mbps"], values="simulated_s"
    )
    others = [name for name in PLANNER_TITLES if name in shared.columns and name != "hiertrain"]
    slower = shared.filter(pl.min_horizontal(others) < pl.col("hiertrain") * (1 - 1e-9))
    return (
        f"with shared interfaces another planner is faster at {len(slower)} of {len(shared)} points"
    )


def accuracy(frame: pl.DataFrame) -> alt.Chart:
    """Validation accuracy against virtual time, a line per planner."""
    ended, left_out = parts.trained(frame)
    mean = (
        _titled(ended)
        .group_by("planner", "epoch", maintain_order=True)
        .agg(pl.col("at_s").mean(), percent=100 * pl.col("top1").mean())
    )
    return (
        parts.over_time(mean, "planner", _present(ended))
        .encode(y=parts.accuracy())
        .properties(height=200, title=_trained_title(ended, *left_out))
    )


def jalad_bits(frame: pl.DataFrame) -> alt.HConcatChart:
    """Accuracy at the end, and seconds of an iteration, against the bits of a value.

    What diverged has no accuracy; the title names it.
    """
    last = (
        frame.group_by("bits", "gradient_bits", "seed", maintain_order=True)
        .last()
        .with_columns(top1=pl.when(pl.col("reason").is_null()).then("top1"))
    )
    both = pl.concat([_gradients(last, title) for title in _GRADIENTS])
    mean = both.group_by("bits", "gradients", maintain_order=True).agg(
        pl.col("iteration_s").mean(), percent=100 * pl.col("top1").mean()
    )
    order = [f"{bits}" for bits in sorted(frame["bits"].unique())]
    base = (
        alt.Chart(mean.with_columns(pl.col("bits").cast(pl.String)))
        .mark_line(point=True)
        .encode(
            x=alt.X("bits:O", sort=order, title="bits a value, c", axis=alt.Axis(labelAngle=0)),
            **figures.series("gradients", list(_GRADIENTS)),
        )
        .properties(height=150)
    )
    learnt = base.encode(y=parts.accuracy())
    seconds = base.encode(y=alt.Y("iteration_s:Q", title="seconds an iteration"))
    cut = f"JALAD, {frame['cut'][0]} of 5 layers on the edge, the rest in the cloud"
    return alt.hconcat(learnt, seconds).properties(
        title=_trained_title(frame, cut, *diverged(frame))
    )


_GRADIENTS = ("gradients in as many bits", "gradients in 32 bits")


def _gradients(frame: pl.DataFrame, title: str) -> pl.DataFrame:
    """Rows whose gradients come back so; 32 bits are both."""
    bits = pl.lit(32) if title == _GRADIENTS[1] else pl.col("bits")
    return frame.filter(pl.col("gradient_bits") == bits).with_columns(gradients=pl.lit(title))


def diverged(frame: pl.DataFrame) -> list[str]:
    """Name what has no accuracy in a frame of `jalad_bits`; nothing if all went well."""
    failed = frame.filter(pl.col("reason").is_not_null())
    cases = failed.select("bits", "gradient_bits").unique(maintain_order=True).rows()
    named = ", ".join(f"{bits} (gradients {back})" for bits, back in cases)
    return [f"diverged: c = {named}"] if cases else []


def table2(frame: pl.DataFrame) -> alt.LayerChart:
    """Time to plan on this machine, and the paper's on its own (the grey tick)."""
    name = pl.col("model").replace(MODEL_TITLES).str.split(" (").list.first()
    drawn = frame.with_columns(model=pl.format("{}, {} layers", name, "layers"))
    models = alt.Y("model:N", sort=drawn["model"].to_list(), title=None)
    base = alt.Chart(drawn).encode(y=models)
    ours = base.mark_point(filled=True, size=55, color=figures.PALETTE[0]).encode(
        x=alt.X(**parts.log_axis("median_ms", "ms to plan"))
    )
    paper = base.mark_tick(color=parts.GREY, thickness=2).encode(
        x=alt.X("paper_ms:Q", scale=alt.Scale(type="log"))
    )
    title = ["Time to plan, this machine (grey: the paper's)", f"batch {frame['batch_size'][0]}"]
    return (ours + paper).properties(height=150, title=title)


def explanations(frame: pl.DataFrame) -> alt.LayerChart:
    """Verdict on every claim of Figs. 7 to 11 under each explanation of the open constants."""
    title = ["Claims met by each explanation (cost model)", "numbers: our speed-ups"]
    chart = parts.verdicts(frame, "hiertrain.", EXPLANATION_TITLES)
    return chart.properties(height=220, title=title)


def assignment(table: pl.DataFrame, layers: int, batch_size: int) -> alt.LayerChart:
    """Who trains which layers, with how many samples: `Policy.table` of all layers."""
    drawn = table.with_columns(
        start=pl.col("first_layer") - 0.5,
        end=pl.col("last_layer") + 0.5,
        middle=(pl.col("first_layer") + pl.col("last_layer")) / 2,
        share=pl.col("samples") / batch_size,
    )
    numbers = list(range(1, layers + 1))
    tiers = alt.Y(
        "tier:N",
        title=None,
        scale=alt.Scale(domain=list(TIERS), paddingInner=0.25),
        axis=alt.Axis(domain=False),
    )
    start = alt.X(
        "start:Q",
        title="layer (number: samples)",
        scale=alt.Scale(domain=[0.5, layers + 0.5], nice=False),
        axis=alt.Axis(values=numbers if layers <= 30 else numbers[4::5], format="d", grid=False),
    )
    shades = alt.Scale(domain=[0, 1], range=[0.15, 0.6])  # light enough for text upon them
    bars = (
        alt.Chart()
        .mark_bar()
        .encode(
            y=tiers,
            x=start,
            x2=alt.X2("end:Q"),
            color=parts.colour("tier", TIERS, legend=None),
            opacity=alt.Opacity("share:Q", scale=shades, legend=None),
        )
    )
    texts = (
        alt.Chart()
        .mark_text(baseline="middle", fontWeight="bold")
        .encode(y=tiers, x=alt.X("middle:Q"), text=alt.Text("samples:Q"))
    )
    return alt.LayerChart(data=drawn, layer=[bars, texts], height=80)


METHOD_TITLES = {
    "alone": "each device by itself (the paper)",
    "assign": "assigned together",
    "exact": "best assignment",
    "lower bound": "lower bound",
}


def fleet(frame: pl.DataFrame) -> alt.FacetChart:
    """Slowest device's iteration against the number of devices, a column per number of edges.

    Means over the fleets drawn; the best assignment only where all fleets of a size have one.
    """
    drawn = (
        _by_method(frame)
        .group_by("edges", "devices", "method", maintain_order=True)
        .agg(pl.col("slowest_s").mean(), pl.col("slowest_s").null_count().alias("missing"))
        .filter(pl.col("missing") == 0)
    )
    sizes = sorted(drawn["devices"].unique().to_list())
    present = [title for title in METHOD_TITLES.values() if title in set(drawn["method"])]
    lines = (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=alt.X("devices:Q", title="devices", axis=alt.Axis(values=sizes, format="d")),
            y=alt.Y("slowest_s:Q", title="slowest device, s an iteration"),
            **figures.series("method", present),
        )
        .properties(height=170)
    )
    order = [_edges(edges) for edges in sorted(frame["edges"].unique().to_list())]
    draws = frame["draw"].n_unique()
    over = f"mean over {draws} random fleets a size" if draws > 1 else "one random fleet a size"
    title = ["Several devices on shared edges", f"{over} (cost model, synthetic machines)"]
    return parts.facets(lines, "edges", order, title, len(order))


def _by_method(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.col("method").replace_strict(METHOD_TITLES),
        edges=pl.col("edges").map_elements(_edges, return_dtype=pl.String),
    )


def _edges(count: int) -> str:
    return "1 edge" if count == 1 else f"{count} edges"


def _bandwidth() -> alt.X:
    axis = alt.Axis(tickMinStep=0.5, format=".1f")
    return alt.X("edge_cloud_mbps:Q", title=_BANDWIDTH, scale=alt.Scale(zero=False), axis=axis)


def _title(
    frame: pl.DataFrame, subject: str, *, cores: bool = True, more: Sequence[str] = ()
) -> list[str]:
    model = MODEL_TITLES.get(frame["model"][0], frame["model"][0])
    return [f"{model}: {subject}", _setting(frame, cores=cores), *more]


def _setting(frame: pl.DataFrame, *, cores: bool = True) -> str:
    setting = frame.row(0, named=True)
    count, devices = setting["edge_cores"], setting["devices"]
    held = [f"batch {setting['batch_size']}"]
    held += [f"device-edge {setting['device_edge_mbps']:g} Mbit/s"]
    held += [f"{count} edge CPU{'s' if count > 1 else ''}"] if cores else []
    held += [f"{devices} devices"] if devices > 1 else []
    return ", ".join(held)


def _trained_title(frame: pl.DataFrame, *more: str) -> list[str]:
    run = frame.row(0, named=True)
    model = MODEL_TITLES[run["model"]].partition(" (")[0]
    data = datasets.title(run["dataset"])
    seeds = frame["seed"].n_unique()
    link = f"batch {run['batch_size']}, edge-cloud {run['edge_cloud_mbps']:g} Mbit/s (simulated)"
    mean = [f"mean of {seeds} seeds"] if seeds > 1 else []
    return [f"{model} on {data}", parts.samples(frame), link, *more, *mean]


def _titled(frame: pl.DataFrame) -> pl.DataFrame:
    return parts.titled(frame, model=MODEL_TITLES, planner=PLANNER_TITLES)


def _present(frame: pl.DataFrame) -> list[str]:
    return parts.present(frame["planner"], PLANNER_TITLES)
