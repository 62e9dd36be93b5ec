"""The paper's figures and tables as charts: one function each, frame to altair chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from workbench import datasets, figures
from workbench.edgegossip.aggregation.costs import SELECTED
from workbench.edgegossip.aggregation.techniques import FAST
from workbench.edgegossip.paper.experiments import READINGS, sizes_text
from workbench.edgegossip.paper.testbed import IMBALANCES, RATIOS
from workbench.figures import parts

MODEL_TITLES = {
    "lenet5": "LeNet-5",
    "alexnet_cifar": "AlexNet",
    "squeezenet_cifar": "SqueezeNet",
    "mobilenet_v2_cifar": "MobileNet-v2",
}
LEARNER_TITLES = MODEL_TITLES | {"alexnet_small": "small AlexNet"}
TECHNIQUE_TITLES = {
    "svd_kmeans": "SVD + k-means",
    "incremental_svd_lsh": "incr. SVD + LSH",
    "hash_kmeans": "hash + k-means",
    "svd_gaussian_mixture": "SVD + mixture",
    "pca_kmeans": "PCA + k-means",
    "pca_lsh": "PCA + LSH",
    "whole_svd_lsh": "whole SVD + LSH",
    "histogram_kmeans": "histogr. + k-means",
}
METHOD_TITLES = {"gosgd": "GoSGD", "edgegossip": "EdgeGossip"}
READING_TITLES = {
    "whole epoch": "whole epoch (Sec. 4.3)",
    "at work": "at work (Sec. 4.3)",
    "CPU platforms": "at work, CPU platforms",
    "one CPU platform": "one CPU platform alone",
}
STEP_TITLES = {"reduce_s": "reduce", "divide_s": "divide", "aggregate_s": "means"}
STRATEGY_TITLES = {
    "accuracy_aware": "accuracy-aware",
    "importance": "importance sampling",
    "random_subsets": "random subsets",
    "random_points": "random points",
}
RANKED = "accuracy-aware, ranked"
_AXIS_PX = 30
_POINT_PX = 6


def fig3_times(frame: pl.DataFrame) -> alt.Chart:
    """Seconds of aggregating by technique, the paper's and the fast form of each."""
    fast = pl.col("technique").str.ends_with(FAST)
    drawn = frame.with_columns(
        pl.col("technique").str.strip_suffix(FAST).replace_strict(TECHNIQUE_TITLES),
        form=pl.when(fast).then(pl.lit(_FORMS[1])).otherwise(pl.lit(_FORMS[0])),
    )
    row = frame.row(0, named=True)
    title = [
        "One point for five: eight ways to aggregate",
        f"{_points(row)} of {row['features']:,} features, timed on this machine",
    ]
    return (
        alt.Chart(drawn)
        .mark_point(filled=True, size=50)
        .encode(
            y=alt.Y("technique:N", sort=list(TECHNIQUE_TITLES.values()), title=None),
            x=alt.X(**parts.log_axis("total_s", "seconds, this machine", tickCount=4)),
            color=parts.colour("form", _FORMS),
            shape=alt.Shape("form:N", sort=_FORMS, legend=None),
        )
        .properties(height=170, title=title)
    )


_FORMS = ["the paper's", "fast"]


def fig3(frame: pl.DataFrame) -> alt.Chart:
    """Accuracy from aggregated points alone, by technique; a mark for each seed."""
    row = frame.row(0, named=True)
    title = [
        f"{_model(row['learner'])} from one point for five of {row['train_samples']:,} "
        f"{_data(row['dataset'])}",
        "a mark for each seed",
    ]
    named = pl.col("technique").replace_strict(TECHNIQUE_TITLES)
    return (
        alt.Chart(frame.with_columns(named, percent=100 * pl.col("top1")))
        .mark_point(filled=True, size=40, color=figures.PALETTE[1])
        .encode(
            y=alt.Y("technique:N", sort=list(TECHNIQUE_TITLES.values()), title=None),
            x=alt.X(
                "percent:Q", scale=alt.Scale(zero=False, padding=10), title="top-1 accuracy, %"
            ),
        )
        .properties(height=140, title=title)
    )


def fig5(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy against training time, a panel per model; each line is a mean over seeds."""
    named = (
        pl.when(method="gosgd")
        .then(pl.lit(METHOD_TITLES["gosgd"]))
        .otherwise(pl.col("technique").replace_strict(TECHNIQUE_TITLES, default=None))
    )
    drawn = _means(frame, "model", "method", "technique").with_columns(
        pl.col("model").replace_strict(MODEL_TITLES), series=named
    )
    names = [METHOD_TITLES["gosgd"], *(TECHNIQUE_TITLES[name] for name in SELECTED)]
    return _curves(drawn, names, "model", list(MODEL_TITLES.values()), _learnt_title(frame))


def fig6(frame: pl.DataFrame) -> alt.FacetChart:
    """Training time by number of platforms, by the cost model, a panel per model."""
    row = frame.row(0, named=True)
    drawn = frame.unpivot(
        on=["gosgd_s", "edgegossip_s"],
        index=["model", "platforms", "speedup"],
        variable_name="method",
        value_name="seconds",
    ).with_columns(
        pl.col("model").replace_strict(MODEL_TITLES),
        pl.col("method").str.strip_suffix("_s").replace_strict(METHOD_TITLES),
    )
    above = [
        f"{row['speedup']:.2f}" if row["method"] == METHOD_TITLES["gosgd"] else ""
        for row in drawn.iter_rows(named=True)
    ]
    drawn = drawn.with_columns(text=pl.Series(above))
    base = alt.Chart(drawn).encode(
        x=alt.X("platforms:O", title="platforms"),
        xOffset=alt.XOffset("method:N", sort=list(METHOD_TITLES.values())),
    )
    bars = base.mark_bar().encode(
        y=alt.Y("seconds:Q", title="seconds"),
        color=parts.colour("method", list(METHOD_TITLES.values())),
    )
    texts = base.mark_text(dy=-6, align="left", dx=-6).encode(y="seconds:Q", text="text:N")
    title = [
        f"Training time of {row['epochs']} epochs; above GoSGD's bars: how many times as "
        "fast EdgeGossip is",
        f"uplinks of {row['uplink_mbps'] / 1000:g} Gbit/s (cost model)",
    ]
    panel = alt.layer(bars, texts).properties(height=130)
    return parts.facets(panel, "model", list(MODEL_TITLES.values()), title).resolve_scale(
        x="independent", xOffset="independent", y="independent"
    )


def fig6_accuracy(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy against training time on larger deployments."""
    titles = pl.format(
        "{}, {} platforms", pl.col("model").replace_strict(MODEL_TITLES), pl.col("platforms")
    )
    drawn = _means(frame, "model", "platforms", "method").with_columns(
        panel=titles, series=pl.col("method").replace_strict(METHOD_TITLES)
    )
    names = list(METHOD_TITLES.values())
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    return _curves(drawn, names, "panel", panels, _learnt_title(frame))


def fig7(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds of the steps of aggregating, by technique and ratio."""
    row = frame.row(0, named=True)
    drawn = frame.unpivot(
        on=list(STEP_TITLES),
        index=["model", "technique", "ratio"],
        variable_name="step",
        value_name="seconds",
    ).with_columns(
        pl.col("step").replace_strict(STEP_TITLES),
        panel=pl.format(
            "{}: {}",
            pl.col("model").replace_strict(MODEL_TITLES),
            pl.col("technique").replace_strict(TECHNIQUE_TITLES).str.split(" + ").list.first(),
        ),
    )
    bars = (
        alt.Chart(drawn)
        .mark_bar()
        .encode(
            x=_ratio_axis(),
            y=alt.Y("seconds:Q", title="s, this machine"),
            color=parts.colour("step", list(STEP_TITLES.values())),
        )
        .properties(height=100)
    )
    title = [
        "Time to aggregate images of the model's size",
        f"{_points(row)}, timed on this machine",
    ]
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    return parts.facets(bars, "panel", panels, title).resolve_scale(y="independent")


def fig8(frame: pl.DataFrame) -> alt.FacetChart:
    """Share of the time that goes into aggregated points, in the four ways it may be read."""
    names = [READING_TITLES[name] for name in READINGS]
    drawn = frame.with_columns(
        pl.col("model").replace_strict(MODEL_TITLES),
        pl.col("reading").replace_strict(READING_TITLES),
    )
    bars = (
        alt.Chart(drawn)
        .mark_bar()
        .encode(
            x=_ratio_axis(),
            xOffset=alt.XOffset("reading:N", sort=names),
            y=alt.Y("percent:Q", title="of the time, %"),
            color=parts.colour("reading", names),
        )
        .properties(height=150)
    )
    title = [
        "Time on aggregated points, read in four ways",
        "first deployment; a single CPU platform for the last (cost model)",
    ]
    return parts.facets(bars, "model", list(MODEL_TITLES.values())[:2], title)


def _ratio_axis() -> alt.X:
    return alt.X("ratio:O", title="aggregation ratio", axis=alt.Axis(format="~g"))


def fig9(frame: pl.DataFrame) -> alt.FacetChart:
    """Error of the predictor by the co-runner's size, which was held out: mean and deviation.

    Beside it those of the base time (t_0) as it was fitted and as measured alone, whatever runs.
    """
    drawn = pl.concat(
        frame.select(
            "workload",
            pl.col("size_bytes") / 1e6,
            pl.lit(title).alias("prediction"),
            pl.col(kind + "mean_percent").alias("percent"),
            pl.col(kind + "variance").sqrt().alias("deviation"),
        )
        for kind, title in _PREDICTION_TITLES.items()
    ).rename({"size_bytes": "megabytes"})
    ours = next(iter(_PREDICTION_TITLES.values()))
    deviation = pl.when(prediction=ours).then("deviation")
    drawn = drawn.with_columns(
        low=pl.max_horizontal(pl.col("percent") - deviation, pl.lit(0.0)),
        high=pl.col("percent") + deviation,
    ).with_columns(low=pl.when(pl.col("high").is_not_null()).then("low"))
    base = alt.Chart(drawn).encode(x=_size_axis())
    points = base.mark_line(point=True).encode(
        y=alt.Y("percent:Q", title="error of prediction, %"),
        **figures.series("prediction", list(_PREDICTION_TITLES.values())),
    )
    spread = base.mark_rule().encode(y="low:Q", y2="high:Q")
    return _by_workload(frame, spread + points, "How far the predictor is off")


_PREDICTION_TITLES = {
    "followed_": "predictor",
    "": "predictor, base time as fitted",
    "naive_": "base time measured alone, always",
}


def fig10(frame: pl.DataFrame) -> alt.VConcatChart:
    """Use of the shared resources by the co-runner's size: mean and two standard deviations."""
    drawn = frame.with_columns(
        megabytes=pl.col("size_bytes") / 1e6,
        low=pl.max_horizontal(pl.col("mean") - pl.col("two_sd"), pl.lit(0.0)),
        high=pl.col("mean") + pl.col("two_sd"),
    )
    rows = []
    for resource, unit in frame.select("resource", "unit").unique(maintain_order=True).rows():
        base = alt.Chart(drawn.filter(resource=resource)).encode(x=_size_axis())
        title = f"{resource}, {'%' if unit == 'percent' else unit}"
        axis = alt.Axis(minExtent=_AXIS_PX, maxExtent=_AXIS_PX)
        lines = base.mark_line(point=True).encode(y=alt.Y("mean:Q", title=title, axis=axis))
        spread = base.mark_rule().encode(y="low:Q", y2="high:Q")
        facet = alt.Facet("workload:N", title=None)
        rows.append(
            (spread + lines)
            .properties(height=90)
            .facet(facet=facet, columns=2, spacing=parts.APART_PX)
        )
    return alt.VConcatChart(vconcat=rows, title=["What co-runners use", *_measured_how(frame)])


def fig11(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds of collecting usages once and of reporting them once."""
    drawn = frame.with_columns(
        megabytes=pl.col("size_bytes") / 1e6, milliseconds=1e3 * pl.col("mean_s")
    )
    lines = (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=_size_axis(),
            y=alt.Y("milliseconds:Q", title="ms each time"),
            **figures.series("part", ["collecting", "reporting"]),
        )
    )
    return _by_workload(frame, lines, "What monitoring costs")


def _size_axis() -> alt.X:
    return alt.X(
        "megabytes:Q",
        scale=alt.Scale(type="log", nice=False, padding=_POINT_PX),
        title="co-runner's input, MB",
        axis=alt.Axis(format="~g", tickCount=4),
    )


def _by_workload(
    frame: pl.DataFrame, chart: alt.Chart | alt.LayerChart, title: str
) -> alt.FacetChart:
    return chart.properties(height=130).facet(
        facet=alt.Facet("workload:N", title=None),
        columns=2,
        spacing=parts.APART_PX,
        title=[title, *_measured_how(frame)],
    )


def _measured_how(frame: pl.DataFrame) -> list[str]:
    sources = {"measured": "measured on this machine", "recorded": "recorded before"}
    return [sources.get(frame["source"][0], frame["source"][0]), sizes_text(frame)]


def fig12(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy against training time, by how many times slower two of four platforms are."""
    drawn = _means(frame, "imbalance", "method").with_columns(
        panel=pl.col("imbalance").replace_strict(_imbalances()),
        series=pl.col("method").replace_strict(METHOD_TITLES),
    )
    panels = list(_imbalances().values())
    title = _learnt_title(frame, "LeNet-5, two of four CPU platforms slower")
    return _curves(drawn, list(METHOD_TITLES.values()), "panel", panels, title)


def fig13(frame: pl.DataFrame) -> alt.LayerChart:
    """Accuracy against training time, by aggregation ratio."""
    ours = frame.filter(method="edgegossip")
    drawn = _means(ours, "ratio").with_columns(
        series=pl.format("ratio {}", pl.col("ratio").cast(pl.Int64))
    )
    names = [f"ratio {ratio:.0f}" for ratio in RATIOS]
    lines = _lines(drawn, names).properties(height=180)
    return alt.LayerChart(
        layer=[_spread(drawn), lines], title=_learnt_title(frame, "LeNet-5 by aggregation ratio")
    )


def strategies(frame: pl.DataFrame) -> alt.Chart:
    """Accuracy against training time, by how samples are chosen."""
    named = (
        pl.when(method="gosgd")
        .then(pl.lit("GoSGD: all"))
        .when(order="ranked")
        .then(pl.lit(RANKED))
        .otherwise(pl.col("strategy").replace_strict(STRATEGY_TITLES, default=None))
    )
    drawn = _means(frame.with_columns(series=named), "series")
    names = ["GoSGD: all", *STRATEGY_TITLES.values(), RANKED]
    title = _learnt_title(frame, "Ways to choose samples, over the same epochs")
    return _lines(drawn, names).properties(height=200, title=title)


def dropouts(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy against training time while platforms fail, a panel per scenario."""
    drawn = _means(frame, "scenario", "method").with_columns(
        series=pl.col("method").replace_strict(METHOD_TITLES)
    )
    row = frame.row(0, named=True)
    title = [
        "Ten platforms, some of which fail",
        *parts.trained(frame)[1],
        f"{_model(row['learner'])} learns {row['train_samples']:,} {_data(row['dataset'])}; one "
        "seed (simulated)",
    ]
    panels = frame["scenario"].unique(maintain_order=True).to_list()
    return _curves(drawn, list(METHOD_TITLES.values()), "scenario", panels, title, height=100)


def explanations(frame: pl.DataFrame) -> alt.FacetChart:
    """Each explanation's numbers beside the paper's (the tick)."""
    titles = {
        "edgegossip.speedup": "speed-up (fitted)",
        "edgegossip.fig8.lenet5": "LeNet-5: ranking, %",
        "edgegossip.fig8.alexnet": "AlexNet: ranking, %",
    }
    names = frame["explanation"].unique(maintain_order=True).to_list()
    base = alt.Chart(frame.with_columns(pl.col("claim").replace_strict(titles))).encode(
        y=alt.Y("explanation:N", sort=names, title=None)
    )
    ours = base.mark_bar().encode(x=alt.X("ours:Q", title="ours; the paper's is the mark"))
    paper = base.mark_tick(color=figures.PALETTE[1], thickness=3).encode(x="paper:Q")
    title = ["What may explain the speed-up", "one constant each (cost model)"]
    panel = (ours + paper).properties(height=70)
    return parts.facets(panel, "claim", list(titles.values()), title).resolve_scale(x="independent")


def _imbalances() -> dict[float, str]:
    return {
        factor: "all equally fast" if factor == 1 else f"{factor:.0f} times slower"
        for factor in IMBALANCES
    }


def _means(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    top1 = 100 * pl.col("top1")
    return (
        parts.trained(frame)[0]
        .group_by(*by, "epoch", maintain_order=True)
        .agg(pl.col("at_s").mean(), percent=top1.mean(), low=top1.min(), high=top1.max())
    )


def _lines(drawn: pl.DataFrame, names: Sequence[str]) -> alt.Chart:
    return parts.over_time(drawn, "series", names, format=",d", tickCount=5).encode(
        y=parts.accuracy("top-1, %", min(drawn["low"], default=0.0)), order=alt.Order("epoch:Q")
    )


def _spread(drawn: pl.DataFrame) -> alt.Chart:
    """From the least to the most of the seeds."""
    least = alt.Y("low:Q", scale=alt.Scale(zero=False))  # the lines say where the axis begins
    return alt.Chart(drawn).mark_rule().encode(x="at_s:Q", y=least, y2="high:Q")


def _curves(
    drawn: pl.DataFrame,
    names: Sequence[str],
    panel: str,
    panels: Sequence[str],
    title: list[str],
    *,
    height: int = 130,
) -> alt.FacetChart:
    """Accuracy against time with the spread over seeds, a panel for each of `panels`."""
    curves = alt.layer(_spread(drawn), _lines(drawn, names)).properties(height=height)
    return parts.facets(curves, panel, panels, title).resolve_scale(x="independent")


def _learnt_title(frame: pl.DataFrame, subject: str = "Accuracy and time") -> list[str]:
    row, seeds = frame.row(0, named=True), frame["seed"].n_unique()
    places = frame.filter(pl.col("model") != pl.col("learner"))
    for_whom = places.group_by("learner", maintain_order=True).agg(
        pl.col("model").unique(maintain_order=True)
    )
    stands = [
        f"{_model(learner)} with the times of {' and '.join(map(_model, models))}"
        for learner, models in for_whom.iter_rows()
    ]
    learnt = f"learnt: {row['train_samples']:,} {_data(row['dataset'])}"
    if stands:
        learnt += f", by {'; by '.join(stands)}"
    ranges = f"mean and range of {seeds} seed{'' if seeds == 1 else 's'} (simulated)"
    return [subject, *parts.trained(frame)[1], f"{learnt}; {ranges}"]


def _model(name: str) -> str:
    return LEARNER_TITLES.get(name, name)


def _data(name: str) -> str:
    return f"samples of {datasets.title(name)}"


def _points(row: Mapping[str, Any]) -> str:
    """What was aggregated."""
    images = f"{row['images']:,} {_data(row['dataset'])}"
    if row["images"] == row["points"]:
        return images
    return f"{row['points']:,} points, {images} and means of two of a class"
