"""The paper's figures and tables as charts: one function each, frame to altair chart."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import altair as alt
import polars as pl

from workbench import figures
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
DATASET_TITLES = {"digits": "digits", "mnist": "MNIST", "cifar10": "CIFAR-10"}
SHARING_TITLES = {
    "none": "a link for every pair",
    "interfaces": "shared interfaces",
}
EXPLANATION_TITLES = {"flops_only": "FLOPs only", "batch_32": "batch of 32"}
VERDICTS = ("holds", "near", "trend", "not reproduced")
_BANDWIDTH = "edge-cloud bandwidth in Mbit/s"
_APART_PX = 24  # between facets, so that the axes' outermost labels stay apart
_TITLE_CHARACTERS = 46  # of a line that a single column has room for


def fig6(frame: pl.DataFrame) -> alt.LayerChart:
    """HierTrain's iteration by the cost model (line) and simulated (points)."""
    base = alt.Chart(frame.with_columns(pl.col("sharing").replace_strict(SHARING_TITLES))).encode(
        x=_bandwidth()
    )
    line = base.mark_line(color=figures.INK, strokeWidth=1).encode(y="predicted_s:Q")
    order = list(SHARING_TITLES.values())
    points = base.mark_point(filled=True, size=45).encode(
        y=alt.Y("simulated_s:Q", title="seconds an iteration", scale=alt.Scale(zero=True)),
        color=_colour("sharing", order),
        shape=_shape("sharing", order),
    )
    said = ["line: cost model, points: simulated", *differences_in_words(frame)]
    return (line + points).properties(height=200, title=_title(frame, "HierTrain", said=said))


def differences_in_words(frame: pl.DataFrame) -> list[str]:
    """A line per way of sharing: how far simulation and cost model differ for HierTrain."""
    lines = []
    for sharing, title in SHARING_TITLES.items():
        off = frame.filter(planner="hiertrain", sharing=sharing)["difference_percent"].to_list()
        if off:
            lines.append(f"{title}: {min(off):+.1f} to {max(off):+.1f} % off the model")
    return lines


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
        .properties(height=200, title=_title(frame, said=["(cost model)"]))
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
            height=200, title=_title(frame, "HierTrain", cores=False, said=["(cost model)"])
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
    return (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=_bandwidth(),
            y=alt.Y("simulated_s:Q", title="seconds an iteration"),
            **figures.series("planner", _present(frame)),
        )
        .properties(height=150)
        .facet(
            facet=alt.Facet("panel:N", sort=order, title=None),
            columns=2,
            title=["One iteration (simulated)", *_wrapped(_setting(frame), overtaken(frame))],
            spacing=_APART_PX,
        )
        .resolve_scale(y="independent")
    )


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
    mean = (
        _titled(frame)
        .group_by("planner", "epoch", maintain_order=True)
        .agg(pl.col("at_s").mean(), percent=100 * pl.col("top1").mean())
    )
    return (
        alt.Chart(mean)
        .mark_line(point=True)
        .encode(
            x=alt.X("at_s:Q", title="virtual seconds"),
            y=alt.Y("percent:Q", title="validation accuracy, %", scale=alt.Scale(domain=[0, 100])),
            **figures.series("planner", _present(frame)),
        )
        .properties(height=200, title=_trained_title(frame))
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
    learnt = base.encode(
        y=alt.Y("percent:Q", title="validation accuracy, %", scale=alt.Scale(domain=[0, 100]))
    )
    seconds = base.encode(y=alt.Y("iteration_s:Q", title="seconds an iteration"))
    cut = f"JALAD, {frame['cut'][0]} of 5 layers on the edge, the rest in the cloud"
    return alt.hconcat(learnt, seconds).properties(
        title=_trained_title(frame, cut, *diverged_in_words(frame))
    )


_GRADIENTS = ("gradients in as many bits", "gradients in 32 bits")


def _gradients(frame: pl.DataFrame, title: str) -> pl.DataFrame:
    """Rows whose gradients come back so; 32 bits are both."""
    bits = pl.lit(32) if title == _GRADIENTS[1] else pl.col("bits")
    return frame.filter(pl.col("gradient_bits") == bits).with_columns(gradients=pl.lit(title))


def diverged_in_words(frame: pl.DataFrame) -> list[str]:
    """Name what has a reason in a frame of `simulations.jalad_bits`; nothing if all went well."""
    failed = frame.filter(pl.col("reason").is_not_null())
    cases = failed.select("bits", "gradient_bits").unique(maintain_order=True).rows()
    told = [f"{bits} (gradients {back})" for bits, back in cases]
    return [f"diverged: c = {', '.join(told)}"] if told else []


def table2(frame: pl.DataFrame) -> alt.LayerChart:
    """Time to plan on this machine, and the paper's on its own (the grey tick)."""
    name = pl.col("model").replace(MODEL_TITLES).str.split(" (").list.first()
    drawn = frame.with_columns(model=pl.format("{}, {} layers", name, "layers"))
    models = alt.Y("model:N", sort=drawn["model"].to_list(), title=None)
    base = alt.Chart(drawn).encode(y=models)
    scale = alt.Scale(type="log")
    ours = base.mark_point(filled=True, size=55, color=figures.PALETTE[0]).encode(
        x=alt.X("median_ms:Q", scale=scale, title="ms to plan", axis=alt.Axis(format="~g"))
    )
    paper = base.mark_tick(color="#888888", thickness=2).encode(x=alt.X("paper_ms:Q", scale=scale))
    title = ["Time to plan, this machine (grey: the paper's)", f"batch {frame['batch_size'][0]}"]
    return (ours + paper).properties(height=150, title=title)


def explanations(frame: pl.DataFrame) -> alt.LayerChart:
    """Verdict on every claim of Figs. 7 to 11 under each explanation of the open constants."""
    drawn = frame.with_columns(
        explanation=pl.col("explanation").replace(EXPLANATION_TITLES).str.replace_all("_", " "),
        claim=pl.col("claim").str.strip_prefix("hiertrain."),
        text=pl.when(pl.col("ours").is_not_null())
        .then(pl.col("ours").round(1).cast(pl.String))
        .otherwise(pl.lit("")),
    )
    base = alt.Chart(drawn).encode(
        x=alt.X(
            "explanation:N",
            sort=drawn["explanation"].unique(maintain_order=True).to_list(),
            title=None,
            axis=alt.Axis(labelAngle=-30),
        ),
        y=alt.Y("claim:N", sort=drawn["claim"].unique(maintain_order=True).to_list(), title=None),
    )
    colours = dict(zip(VERDICTS, ("#17315f", "#2a7f74", "#f2dd9c", "#ffffff"), strict=True))
    cells = base.mark_rect(stroke="#888888").encode(
        color=alt.Color(
            "verdict:N",
            title=None,
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        )
    )
    dark = alt.FieldOneOfPredicate(field="verdict", oneOf=list(VERDICTS[:2]))
    numbers = base.mark_text().encode(
        text="text:N",
        color=alt.when(dark).then(alt.value("white")).otherwise(alt.value(figures.INK)),
    )
    return (cells + numbers).properties(
        height=220, title=["Claims met by each explanation (cost model)", "numbers: our speed-ups"]
    )


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
            color=_colour("tier", TIERS).legend(None),
            opacity=alt.Opacity("share:Q", scale=shades, legend=None),
        )
    )
    texts = (
        alt.Chart()
        .mark_text(baseline="middle", fontWeight="bold")
        .encode(y=tiers, x=alt.X("middle:Q"), text=alt.Text("samples:Q"))
    )
    return alt.LayerChart(data=drawn, layer=[bars, texts], height=80)


def _bandwidth() -> alt.X:
    axis = alt.Axis(tickMinStep=0.5, format=".1f")
    return alt.X("edge_cloud_mbps:Q", title=_BANDWIDTH, scale=alt.Scale(zero=False), axis=axis)


def _colour(field: str, order: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=list(order), range=list(figures.PALETTE[: len(order)]))
    return alt.Color(f"{field}:N", title=None, scale=scale)


def _shape(field: str, order: Sequence[str]) -> alt.Shape:
    scale = alt.Scale(domain=list(order), range=list(figures.SHAPES[: len(order)]))
    return alt.Shape(f"{field}:N", title=None, scale=scale)


def _title(
    frame: pl.DataFrame, subject: str = "", *, cores: bool = True, said: Sequence[str] = ()
) -> list[str]:
    """What is shown, what is held constant, and what is said about it."""
    model = MODEL_TITLES.get(frame["model"][0], frame["model"][0])
    about = f"{model}, {subject}" if subject else model
    return [about, *_wrapped(_setting(frame, cores=cores), *said)]


def _setting(frame: pl.DataFrame, *, cores: bool = True) -> str:
    setting = frame.row(0, named=True)
    count, devices = setting["edge_cores"], setting["devices"]
    words = [f"batch {setting['batch_size']}"]
    words += [f"device-edge {setting['device_edge_mbps']:g} Mbit/s"]
    words += [f"{count} edge CPU{'s' if count > 1 else ''}"] if cores else []
    words += [f"{devices} devices"] if devices > 1 else []
    return ", ".join(words)


def _trained_title(frame: pl.DataFrame, *more: str) -> list[str]:
    """What was trained on what, of how many samples."""
    run = frame.row(0, named=True)
    model = MODEL_TITLES[run["model"]].partition(" (")[0]
    data = DATASET_TITLES.get(run["dataset"], run["dataset"])
    samples = f"{run['train_samples']:,} training, {run['test_samples']:,} validation samples"
    seeds = frame["seed"].n_unique()
    link = f"batch {run['batch_size']}, edge-cloud {run['edge_cloud_mbps']:g} Mbit/s (simulated)"
    mean = [f"mean of {seeds} seeds"] if seeds > 1 else []
    return [f"{model} on {data}", *_wrapped(samples, link, *more, *mean)]


def _wrapped(*sentences: str) -> list[str]:
    return [line for one in sentences for line in textwrap.wrap(one, _TITLE_CHARACTERS)]


def _titled(frame: pl.DataFrame) -> pl.DataFrame:
    titles = {"model": MODEL_TITLES, "planner": PLANNER_TITLES}
    return frame.with_columns(
        pl.col(column).replace(new) for column, new in titles.items() if column in frame.columns
    )


def _present(frame: pl.DataFrame) -> list[str]:
    """Titles of the planners in a frame; those without a title come last."""
    found = frame["planner"].unique(maintain_order=True).to_list()
    own = [name for name in found if name not in PLANNER_TITLES]
    return [title for name, title in PLANNER_TITLES.items() if name in found] + own
