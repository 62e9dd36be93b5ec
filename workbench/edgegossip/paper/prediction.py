"""Figs. 9 to 11: the performance predictor on this machine.

One table of samples serves all three, at the scale "smoke" a recorded one (column ``source``);
``python -m workbench.edgegossip.paper.prediction`` records it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.edgegossip.prediction.co_runners import WORKLOADS
from workbench.edgegossip.prediction.predictor import RESOURCES, SECONDS, Contention, fit
from workbench.edgegossip.prediction.profiling_runs import ALONE, SCHEMA, profiling_runs
from workbench.figures import parts
from workbench.reproduction.claims import Answer, Cause, paper_value
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.utils import files
from workbench.utils.checks import UserError
from workbench.utils.files import DATA
from workbench.utils.numbers import bytes_as_text

PAPER_SIZES_BYTES = tuple(step * 10**power for power in range(6, 11) for step in (1, 2, 5))[:13]

# As many and as far apart, but begun ten times a second: beside the smallest two cores are all but
# free, beside the largest two without a pause, and a second sees some jobs from begin to end.
SIZES_BYTES = tuple(size // 500 for size in PAPER_SIZES_BYTES)

RECORDING = {"sizes": SIZES_BYTES, "seconds_per_point": 1.0, "repeats": 6, "every_s": 0.1}

RECORDED = DATA / "samples" / "edgegossip_contention.csv"


def samples(wanted: Mapping[str, Any] | None, seed: int = 1) -> pl.DataFrame:
    """Contention and training time: recorded at the scale "smoke", else measured here and now.

    The scale "default" takes about 70 s; "paper", with the sizes of the paper, over two hours.
    `wanted` are arguments of `profiling_runs`, whose rows these are; `seed` is of the order of
    measuring. ``source`` is "recorded" or "measured".
    """
    if wanted is None:
        return pl.read_csv(RECORDED, schema=SCHEMA)
    return profiling_runs(**wanted, seed=seed)


CONTENTION = Figure(
    id="contention",
    compute=samples,
    sizes={
        "wanted": Scaled[Mapping[str, Any] | None](
            smoke=None,  # the recorded samples
            default={**RECORDING, "seconds_per_point": 0.5, "repeats": 2},
            paper={
                "sizes": PAPER_SIZES_BYTES,
                "seconds_per_point": 60.0,
                "repeats": 5,
                "every_s": 60.0,
            },
        )
    },
    recorded=True,
    live=True,
)


def _by_job(frame: pl.DataFrame) -> pl.dataframe.group_by.GroupBy:
    return (
        frame.filter(pl.col("workload") != ALONE[0])
        .sort("workload", "size_bytes")
        .group_by("source", "workload", "size_bytes", maintain_order=True)
    )


def _halves(frame: pl.DataFrame, column: str) -> tuple[float, float]:
    """Mean of a column over the smaller sizes, the median among them, and over the larger."""
    is_large = pl.col("size_bytes") > pl.col("size_bytes").median().over("workload")
    small, large = frame.filter(~is_large)[column], frame.filter(is_large)[column]
    return fmean(small), fmean(large)


def _answer(frame: pl.DataFrame, ours: bool | float, detail: str) -> Answer:
    """Answer that names where samples come from."""
    source = frame["source"][0]
    return Answer(ours, f"{detail}, samples {source}", timed=source == "measured")


_MEGABYTES = (pl.col("size_bytes") / 1e6).alias("megabytes")


def _size_axis() -> alt.X:
    return alt.X(
        "megabytes:Q",
        scale=alt.Scale(type="log", nice=False, padding=6),
        title="co-runner's input, MB",
        axis=alt.Axis(format="~g", tickCount=4),
    )


def _by_workload(
    frame: pl.DataFrame, chart: alt.Chart | alt.LayerChart, title: str, rings: str
) -> alt.FacetChart:
    """Panels by workload of rows with ``paper``, a mean that rings show at the right edge."""
    ring = parts.paper_rings(alt.Chart(chart.data), x=alt.value("width"), y="max(paper):Q")
    return (
        (chart + ring)
        .properties(height=130)
        .facet(
            facet=alt.Facet("workload:N", title=None),
            columns=2,
            spacing=parts.APART_PX,
            title=[title, *_measured_how(frame), f"rings: {rings}"],
        )
    )


def _measured_how(frame: pl.DataFrame) -> list[str]:
    sources = {"measured": "measured on this machine", "recorded": "recorded before"}
    sizes = frame["size_bytes"].unique().sort()
    ours, papers = (
        f"{len(each)}, {bytes_as_text(each[0])} to {bytes_as_text(each[-1])}"
        for each in (sizes, PAPER_SIZES_BYTES)
    )
    return [sources[frame["source"][0]], f"sizes: {ours} (the paper: {papers})"]


# Figure 9: errors of prediction

PREDICTIONS = {
    "followed_s": "predictor",
    "predicted_s": "predictor, base time as fitted",
    "naive_s": "base time measured alone, always",
}
"""Titles of predictions by their columns."""


def held_out(measured: pl.DataFrame, form: str = "share") -> pl.DataFrame:
    """Predict the samples of each size by a fit to all other sizes, and naively.

    Returns the samples beside jobs, with ``predicted_s``, by t_0 of the fit, ``followed_s``, by t_0
    that follows all earlier samples (`Predictor.observe`), and ``naive_s``, the mean time of
    training alone, which ignores contention.
    """
    sizes = [size for size in measured["size_bytes"].unique().sort() if size > 0]
    if len(sizes) < 2:
        raise UserError(f"samples of the sizes {sizes}; holding one out needs at least two")
    alone = measured.filter(size_bytes=0)
    if alone.is_empty():
        raise UserError("no sample of the training alone (size_bytes of 0); measure some")
    naive_s = pl.lit(alone[SECONDS].mean())
    ordered, by_size = measured.sort("order"), []
    for size in sizes:
        predictor = fit(ordered.filter(pl.col("size_bytes") != size), form)
        baseline_s, predicted_s, followed_s = predictor.baseline_s, [], []
        for *resources, seconds in ordered.select(*RESOURCES, SECONDS).iter_rows():
            contention = Contention(*resources)
            predicted_s.append(predictor.seconds(predictor.baseline_s, contention))
            followed_s.append(predictor.seconds(baseline_s, contention))
            baseline_s = predictor.observe(baseline_s, contention, seconds)
        columns = (pl.Series("predicted_s", predicted_s), pl.Series("followed_s", followed_s))
        by_size.append(ordered.with_columns(*columns, naive_s=naive_s).filter(size_bytes=size))
    return pl.concat(by_size)


def errors(measured: pl.DataFrame) -> pl.DataFrame:
    """Errors of prediction by workload and size, that size held out (Fig. 9).

    The predicted and the measured seconds are averaged over the windows of a job before their error
    is taken, as the paper's monitors report means of a minute (Sec. 3.3). Of a single window, here
    of a second, ``window_percent`` is the mean error and ``variance`` that of the signed errors
    (percent squared; null of a single window).

    Columns ``source, workload, size_bytes, samples``; ``followed_percent`` is the error of the
    predictor, whose t_0 changes with the machine as the paper has it, ``predicted_percent`` by t_0
    as it was fitted; ``naive_percent`` by t_0 measured alone is blind to contention.
    ``window_percent`` and ``variance`` are the predictor's.
    """
    measured_s, window_error = pl.col(SECONDS), 100 * (pl.col("followed_s") / pl.col(SECONDS) - 1)
    return _by_job(held_out(measured)).agg(
        pl.len().alias("samples"),
        *(
            (100 * (pl.col(column).mean() / measured_s.mean() - 1).abs()).alias(
                column.removesuffix("_s") + "_percent"
            )
            for column in PREDICTIONS
        ),
        window_percent=window_error.abs().mean(),
        variance=window_error.var(),
    )


def draw_errors(frame: pl.DataFrame) -> alt.FacetChart:
    """Error of the predictor by the co-runner's size, which was held out.

    A rule shows the standard deviation of single windows. Beside it the errors by the base time
    (t_0) as it was fitted and as measured alone, whatever runs.
    """
    ours, *_ = PREDICTIONS.values()
    drawn = pl.concat(
        frame.select(
            "workload",
            _MEGABYTES,
            pl.lit(title).alias("prediction"),
            pl.col(column.removesuffix("_s") + "_percent").alias("percent"),
            pl.lit(title == ours).alias("has_rule") & (pl.col("samples") > 1),
            pl.col("variance").sqrt().alias("deviation"),
        )
        for column, title in PREDICTIONS.items()
    ).with_columns(
        paper=pl.lit(paper_value("edgegossip.fig9.error")),
        low=pl.when("has_rule").then((pl.col("percent") - pl.col("deviation")).clip(0)),
        high=pl.when("has_rule").then(pl.col("percent") + pl.col("deviation")),
    )
    base = alt.Chart(drawn).encode(x=_size_axis())
    points = base.mark_line(point=True).encode(
        y=alt.Y("percent:Q", title="error of prediction, %"),
        **figures.series("prediction", list(PREDICTIONS.values())),
    )
    rules = base.mark_rule().encode(y="low:Q", y2="high:Q")
    both = alt.LayerChart(data=drawn, layer=[rules, points])
    return _by_workload(frame, both, "How far the predictor is off", "the paper's mean error")


def _prediction_error(fig9: pl.DataFrame) -> Answer:
    # The paper's predictor changes t_0 with the machine, so its error is the one by t_0 followed.
    followed, fitted, naive, window = (
        fmean(fig9[f"{name}_percent"]) for name in ("followed", "predicted", "naive", "window")
    )
    detail = (
        f"means over a job's windows; {fitted:.1f} % without following t_0, "
        f"{naive:.1f} % blind to contention; single windows {window:.1f} %"
    )
    return _answer(fig9, followed, detail)


def _error_by_size(fig9: pl.DataFrame) -> Answer:
    small, large = _halves(fig9, "followed_percent")
    detail = f"{small:.1f} % over the smaller sizes, {large:.1f} % over the larger"
    return _answer(fig9, large >= small, detail)


FIG9 = Figure(
    id="fig9",
    compute=errors,
    chart=draw_errors,
    of=(CONTENTION,),
    answers={
        "edgegossip.fig9.error": _prediction_error,
        "edgegossip.fig9.trend": _error_by_size,
    },
    timings=True,
)

# Figure 10: use of the shared resources


def usage(measured: pl.DataFrame) -> pl.DataFrame:
    """Use of the shared resources by workload and size, without that of the training (Fig. 10).

    ``source, workload, size_bytes, resource`` (core in percent; network and disk in MB/s: see
    ``unit``), ``mean`` and ``two_sd``, two standard deviations over the samples.
    """
    units = (("core", "percent", 100.0), ("network", "MB/s", 1e-6), ("disk", "MB/s", 1e-6))
    return pl.concat(
        _by_job(measured).agg(
            pl.lit(resource).alias("resource"),
            pl.lit(unit).alias("unit"),
            (pl.col(column) * factor).mean().alias("mean"),
            (2 * (pl.col(column) * factor).std()).alias("two_sd"),
        )
        for column, (resource, unit, factor) in zip(RESOURCES, units, strict=True)
    )


def draw_usage(frame: pl.DataFrame) -> alt.VConcatChart:
    """Use of the shared resources by the co-runner's size: mean and two standard deviations."""
    drawn = frame.with_columns(
        _MEGABYTES,
        low=(pl.col("mean") - pl.col("two_sd")).clip(0),
        high=pl.col("mean") + pl.col("two_sd"),
    )
    rows = []
    for resource, unit in frame.select("resource", "unit").unique(maintain_order=True).rows():
        base = alt.Chart(drawn.filter(resource=resource)).encode(x=_size_axis())
        title = f"{resource}, {'%' if unit == 'percent' else unit}"
        axis = alt.Axis(minExtent=30, maxExtent=30)  # pixels, so that the rows' panels align
        lines = base.mark_line(point=True).encode(y=alt.Y("mean:Q", title=title, axis=axis))
        rules = base.mark_rule().encode(y="low:Q", y2="high:Q")
        panel = (rules + lines).properties(height=90)
        facet = alt.Facet("workload:N", title=None)
        rows.append(panel.facet(facet=facet, columns=2, spacing=parts.APART_PX))
    return alt.VConcatChart(vconcat=rows, title=["What co-runners use", *_measured_how(frame)])


def _use_grows(fig10: pl.DataFrame, resource: str, workloads: Sequence[str]) -> Answer:
    """Whether more of a resource is used beside the larger jobs, for each workload."""
    return _answer(fig10, *_grows(fig10, "mean", resource, workloads))


def _fluctuations(fig10: pl.DataFrame) -> Answer:
    network, network_detail = _grows(fig10, "two_sd", "network", tuple(WORKLOADS))
    disk, disk_detail = _grows(fig10, "two_sd", "disk", tuple(WORKLOADS))
    return _answer(fig10, network and disk, f"2 SD: {network_detail}; {disk_detail}")


def _of_sort_above(fig10: pl.DataFrame, column: str, resources: Sequence[str]) -> Answer:
    """Whether a column is larger for Sort than for WordCount, the mean over the sizes."""
    texts, holds = [], True
    for resource in resources:
        of_resource = fig10.filter(resource=resource)
        sort, count = (
            fmean(of_resource.filter(workload=name)[column]) for name in ("sort", "wordcount")
        )
        holds &= sort > count
        unit = of_resource["unit"][0].replace("percent", "%")
        texts.append(f"{resource} {sort:.3g} beside {count:.3g} {unit}")
    return _answer(fig10, holds, ", ".join(texts))


def _grows(
    fig10: pl.DataFrame, column: str, resource: str, workloads: Sequence[str]
) -> tuple[bool, str]:
    of_resource = fig10.filter(resource=resource)
    unit = of_resource["unit"][0].replace("percent", "%")
    halves = {name: _halves(of_resource.filter(workload=name), column) for name in workloads}
    texts = [f"{name} {small:.3g} to {large:.3g} {unit}" for name, (small, large) in halves.items()]
    holds = all(large > small for small, large in halves.values())
    return holds, f"{resource} {', '.join(texts)}"


FIG10 = Figure(
    id="fig10",
    compute=usage,
    chart=draw_usage,
    of=(CONTENTION,),
    answers={
        "edgegossip.fig10.core": partial(_use_grows, resource="core", workloads=tuple(WORKLOADS)),
        "edgegossip.fig10.sort_disk": partial(_use_grows, resource="disk", workloads=("sort",)),
        "edgegossip.fig10.fluctuations": _fluctuations,
        "edgegossip.fig10.sort_intensive": partial(
            _of_sort_above, column="mean", resources=("disk",)
        ),
        "edgegossip.fig10.sort_fluctuates": partial(
            _of_sort_above, column="two_sd", resources=("core", "network", "disk")
        ),
    },
    causes={
        "edgegossip.fig10.sort_fluctuates": Cause(
            "ours",
            "a job of Sort here ends before the next begins at every size, so that each window "
            "has as many whole jobs. WordCount's largest jobs never pause, and have the cores "
            "only as far as the training leaves them",
        ),
    },
    timings=True,
)

# Figure 11: what monitoring costs


def overheads(measured: pl.DataFrame) -> pl.DataFrame:
    """Seconds of collecting usages once and of reporting them once, beside each job (Fig. 11).

    ``source, workload, size_bytes``; ``part``, "collecting" or "reporting"; ``mean_s`` and
    ``most_s`` over the samples.
    """
    return pl.concat(
        _by_job(measured).agg(
            pl.lit(part).alias("part"),
            pl.col(column).mean().alias("mean_s"),
            pl.col(column).max().alias("most_s"),
        )
        for part, column in (("collecting", "sample_s"), ("reporting", "report_s"))
    )


def draw_overheads(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds of collecting usages once and of reporting them once."""
    drawn = frame.with_columns(
        _MEGABYTES,
        milliseconds=1e3 * pl.col("mean_s"),
        paper=pl.lit(1e3 * paper_value("edgegossip.fig11.overhead")),
    )
    axis = alt.Y("milliseconds:Q", title="ms each time")
    lines = parts.lines(drawn, _size_axis(), axis, "part", ["collecting", "reporting"])
    return _by_workload(frame, lines, "What monitoring costs", "at most, by the paper")


def _overhead(fig11: pl.DataFrame) -> Answer:
    """Mean over the jobs of each part, as the paper averages; the larger of the two."""
    means = dict(fig11.group_by("part").agg(pl.col("mean_s").mean()).sort("part").iter_rows())
    each = ", ".join(f"{name} {1e3 * mean_s:.2g} ms" for name, mean_s in means.items())
    detail = f"{each}, beside one job at most {1e3 * max(fig11['mean_s']):.2g} ms"
    return _answer(fig11, max(means.values()), detail)


def _overhead_by_size(fig11: pl.DataFrame) -> Answer:
    small, large = _halves(_both_parts(fig11), "mean_s")
    detail = f"{1e3 * small:.2f} ms over the smaller sizes, {1e3 * large:.2f} ms over the larger"
    return _answer(fig11, large > small, detail)


def _overhead_of_sort(fig11: pl.DataFrame) -> Answer:
    both = _both_parts(fig11)
    sort, count = (fmean(both.filter(workload=name)["mean_s"]) for name in ("sort", "wordcount"))
    detail = f"{1e3 * sort:.2f} ms beside Sort, {1e3 * count:.2f} ms beside WordCount"
    return _answer(fig11, sort > count, detail)


def _both_parts(fig11: pl.DataFrame) -> pl.DataFrame:
    """Seconds of collecting and reporting together, by job."""
    by = ("source", "workload", "size_bytes")
    return fig11.group_by(*by, maintain_order=True).agg(pl.col("mean_s").sum())


FIG11 = Figure(
    id="fig11",
    compute=overheads,
    chart=draw_overheads,
    of=(CONTENTION,),
    answers={
        "edgegossip.fig11.overhead": _overhead,
        "edgegossip.fig11.size": _overhead_by_size,
        "edgegossip.fig11.sort": _overhead_of_sort,
    },
    causes={
        "edgegossip.fig11.sort": Cause(
            "noise",
            "the means differ by less than the standard error of their difference over all "
            "recorded readings, and the middle halves of both overlap",
        ),
    },
    timings=True,
)


if __name__ == "__main__":  # in some minutes
    recorded = samples(RECORDING, seed=0).with_columns(source=pl.lit("recorded"))
    files.write_text(RECORDED, recorded.write_csv())
