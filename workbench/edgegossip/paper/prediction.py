"""Figs. 9 to 11: the performance predictor on this machine.

One table of samples serves all three, at the scale "smoke" a recorded one (column ``source``);
``python -m workbench.edgegossip.paper.prediction`` records it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple, cast

import altair as alt
import polars as pl

from workbench import figures
from workbench.edgegossip.prediction.co_runners import WORKLOADS
from workbench.edgegossip.prediction.predictor import (
    RESOURCES,
    SECONDS,
    Contention,
    Predictor,
    fit,
)
from workbench.edgegossip.prediction.profiling_runs import ALONE, SCHEMA, profiling_runs
from workbench.figures import parts
from workbench.reproduction.claims import Answer, Cause
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.utils import files
from workbench.utils.checks import UserError
from workbench.utils.files import DATA


class Measuring(NamedTuple):
    """Arguments of `workbench.edgegossip.profiling_runs`."""

    sizes: Sequence[int]
    seconds_per_point: float
    repeats: int
    every_s: float


PAPER_SIZES_BYTES = tuple(step * 10**power for power in range(6, 11) for step in (1, 2, 5))[:13]


# As many and as far apart, but begun ten times a second: beside the smallest two cores are all but
# free, beside the largest two without a pause, and a second sees some jobs from begin to end.
SIZES_BYTES = tuple(size // 500 for size in PAPER_SIZES_BYTES)

RECORDING = Measuring(SIZES_BYTES, 1.0, 6, 0.1)

RECORDED = DATA / "samples" / "edgegossip_contention.csv"


def samples(wanted: Measuring | None, seed: int = 1) -> pl.DataFrame:
    """Contention and training time: recorded at the scale "smoke", else measured here and now.

    The scale "default" takes about 70 s; "paper", with the sizes of the paper, over two hours.
    `seed` is of the order of measuring. Rows are as of `profiling_runs`; ``source`` is "recorded"
    or "measured".
    """
    if wanted is None:
        return pl.read_csv(RECORDED, schema=SCHEMA)
    return profiling_runs(**wanted._asdict(), seed=seed)


def errors(measured: pl.DataFrame) -> pl.DataFrame:
    """Errors of prediction by workload and size, that size held out (Fig. 9).

    The predicted and the measured seconds are averaged over the windows of a job before their error
    is taken, as the paper's monitors report means of a minute (Sec. 3.3). Of a single window, here
    of a second, ``window_percent`` is the mean error and ``variance`` that of the signed errors
    (percent squared; null of a single window).

    Columns ``source, workload, size_bytes, samples``; ``followed_percent`` is the error of the
    predictor, whose t_0 changes with the machine as the paper has it, ``percent`` by t_0 as it was
    fitted; ``naive_percent`` by t_0 measured alone and ``naive_followed_percent`` by a moving
    average are blind to contention. ``window_percent`` and ``variance`` are the predictor's.
    """
    measured_s = pl.col(SECONDS)
    return _by_point(held_out(measured)).agg(
        pl.len().alias("samples"),
        *(
            (100 * (pl.col(column).mean() / measured_s.mean() - 1).abs()).alias(kind + "percent")
            for kind, column in PREDICTIONS.items()
        ),
        window_percent=(100 * (pl.col("followed_s") / measured_s - 1)).abs().mean(),
        variance=(100 * (pl.col("followed_s") / measured_s - 1)).var(),
    )


def usage(measured: pl.DataFrame) -> pl.DataFrame:
    """Use of the shared resources by workload and size, without that of the training (Fig. 10).

    ``source, workload, size_bytes, resource`` (core in percent; network and disk in MB/s: see
    ``unit``), ``mean`` and ``two_sd``, two standard deviations over the samples.
    """
    units = (("core", "percent", 100.0), ("network", "MB/s", 1e-6), ("disk", "MB/s", 1e-6))
    return pl.concat(
        _by_point(measured).agg(
            pl.lit(resource).alias("resource"),
            pl.lit(unit).alias("unit"),
            (pl.col(column) * factor).mean().alias("mean"),
            (2 * (pl.col(column) * factor).std()).alias("two_sd"),
        )
        for column, (resource, unit, factor) in zip(RESOURCES, units, strict=True)
    )


def overheads(measured: pl.DataFrame) -> pl.DataFrame:
    """What collecting usages once and reporting them once takes, beside each job (Fig. 11).

    ``source, workload, size_bytes``; ``part``, "collecting" or "reporting"; ``mean_s`` and
    ``most_s`` over the samples.
    """
    return pl.concat(
        _by_point(measured).agg(
            pl.lit(part).alias("part"),
            pl.col(column).mean().alias("mean_s"),
            pl.col(column).max().alias("most_s"),
        )
        for part, column in (("collecting", "sample_s"), ("reporting", "report_s"))
    )


def sizes_text(frame: pl.DataFrame) -> str:
    """Text on the job sizes in the rows of a figure."""
    sizes = frame["size_bytes"].unique().sort().to_list()
    text = f"{len(sizes)} sizes, {_bytes(sizes[0])} to {_bytes(sizes[-1])}"
    first, last = min(PAPER_SIZES_BYTES), max(PAPER_SIZES_BYTES)
    if (sizes[0], sizes[-1]) == (first, last):
        return f"{text} as in the paper"
    return f"{text} (the paper: {len(PAPER_SIZES_BYTES)}, {_bytes(first)} to {_bytes(last)})"


def _bytes(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def _by_point(frame: pl.DataFrame) -> pl.dataframe.group_by.GroupBy:
    return (
        frame.filter(pl.col("workload") != ALONE[0])
        .sort("workload", "size_bytes")
        .group_by("source", "workload", "size_bytes", maintain_order=True)
    )


PREDICTIONS = {
    "": "predicted_s",
    "followed_": "followed_s",
    "naive_": "naive_s",
    "naive_followed_": "naive_followed_s",
}
"""Prefix of the columns about a prediction -> its own column."""


def held_out(measured: pl.DataFrame, form: str = "share") -> pl.DataFrame:
    """Predict the samples of each size by a fit to all other sizes, and naively.

    Naive predictions ignore contention: the mean time of training alone, and a moving average of
    times.

    Returns the samples beside jobs, with ``predicted_s``, by t_0 of the fit, and ``followed_s``, by
    t_0 that follows all earlier samples (`Predictor.observe`); ``naive_s`` and
    ``naive_followed_s``.
    """
    sizes = [size for size in measured["size_bytes"].unique().sort() if size > 0]
    if len(sizes) < 2:
        raise UserError(f"samples of the sizes {sizes}; holding one out needs at least two")
    ordered, parts = measured.sort("order"), []
    naive = _predictions(ordered, _without_contention(ordered))
    for size in sizes:
        predictor = fit(ordered.filter(pl.col("size_bytes") != size), form)
        seconds = zip(
            PREDICTIONS.values(), (*_predictions(ordered, predictor), *naive), strict=True
        )
        columns = [pl.Series(name, values) for name, values in seconds]
        parts.append(ordered.with_columns(columns).filter(size_bytes=size))
    return pl.concat(parts)


def _without_contention(measured: pl.DataFrame) -> Predictor:
    alone = measured.filter(size_bytes=0)
    if alone.is_empty():
        raise UserError("no sample of the training alone (size_bytes of 0); measure some")
    alone_s = cast(float, alone[SECONDS].mean())
    return Predictor("linear", alone["cores"][0], 1.0, 1.0, (0.0, 0.0, 0.0), alone_s)


def _predictions(ordered: pl.DataFrame, predictor: Predictor) -> tuple[list[float], list[float]]:
    """Seconds of each sample, by t_0 as it was fitted and by t_0 followed."""
    baseline_s, predicted_s, followed_s = predictor.baseline_s, [], []
    for *resources, seconds in ordered.select(*RESOURCES, SECONDS).iter_rows():
        contention = Contention(*resources)
        predicted_s.append(predictor.seconds(predictor.baseline_s, contention))
        followed_s.append(predictor.seconds(baseline_s, contention))
        baseline_s = predictor.observe(baseline_s, contention, seconds)
    return predicted_s, followed_s


def draw_errors(frame: pl.DataFrame) -> alt.FacetChart:
    """Error of the predictor by the co-runner's size, which was held out.

    A rule shows the standard deviation of single windows. Beside it the errors by the base time
    (t_0) as it was fitted and as measured alone, whatever runs.
    """
    drawn = pl.concat(
        frame.select(
            "workload",
            pl.col("size_bytes") / 1e6,
            pl.lit(title).alias("prediction"),
            pl.col(kind + "percent").alias("percent"),
            pl.col("variance").sqrt().alias("deviation"),
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


def draw_usage(frame: pl.DataFrame) -> alt.VConcatChart:
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
        axis = alt.Axis(minExtent=30, maxExtent=30)  # pixels, so that the rows' panels align
        lines = base.mark_line(point=True).encode(y=alt.Y("mean:Q", title=title, axis=axis))
        spread = base.mark_rule().encode(y="low:Q", y2="high:Q")
        facet = alt.Facet("workload:N", title=None)
        rows.append(
            (spread + lines)
            .properties(height=90)
            .facet(facet=facet, columns=2, spacing=parts.APART_PX)
        )
    return alt.VConcatChart(vconcat=rows, title=["What co-runners use", *_measured_how(frame)])


def draw_overheads(frame: pl.DataFrame) -> alt.FacetChart:
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
        scale=alt.Scale(type="log", nice=False, padding=6),
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


def _prediction_error(fig9: pl.DataFrame) -> Answer:
    # The paper's predictor changes t_0 with the machine, so its error is the one by t_0 followed.
    percent = {
        name: fmean(fig9[name])
        for name in ("followed_percent", "percent", "naive_percent", "window_percent")
    }
    detail = (
        f"means over a job's windows, {_source(fig9)}; {percent['percent']:.1f} % without "
        f"following t_0, {percent['naive_percent']:.1f} % blind to contention; single windows "
        f"{percent['window_percent']:.1f} %"
    )
    return Answer(percent["followed_percent"], detail, timed=_timed(fig9))


def _error_by_size(fig9: pl.DataFrame) -> Answer:
    small, large = _halves(fig9, "followed_percent")
    detail = f"{small:.1f} % over the smaller sizes, {large:.1f} % over the larger"
    return Answer(large >= small, detail, timed=_timed(fig9))


def _halves(frame: pl.DataFrame, column: str) -> tuple[float, float]:
    """Mean of a column over the smaller sizes, the median among them, and over the larger."""
    is_large = pl.col("size_bytes") > pl.col("size_bytes").median().over("workload")
    small, large = frame.filter(~is_large)[column], frame.filter(is_large)[column]
    return fmean(small), fmean(large)


def _use_grows(fig10: pl.DataFrame, resource: str, workloads: Sequence[str]) -> Answer:
    """Whether more of a resource is used beside the larger jobs, for each workload."""
    holds, detail = _grows(fig10, "mean", resource, workloads)
    return Answer(holds, f"{detail}, {_source(fig10)}", timed=_timed(fig10))


def _fluctuations(fig10: pl.DataFrame) -> Answer:
    network, network_detail = _grows(fig10, "two_sd", "network", tuple(WORKLOADS))
    disk, disk_detail = _grows(fig10, "two_sd", "disk", tuple(WORKLOADS))
    detail = f"2 SD: {network_detail}; {disk_detail}, {_source(fig10)}"
    return Answer(network and disk, detail, timed=_timed(fig10))


def _grows(
    fig10: pl.DataFrame, column: str, resource: str, workloads: Sequence[str]
) -> tuple[bool, str]:
    of_resource = fig10.filter(resource=resource)
    unit = of_resource["unit"][0].replace("percent", "%")
    halves = {name: _halves(of_resource.filter(workload=name), column) for name in workloads}
    texts = [f"{name} {small:.3g} to {large:.3g} {unit}" for name, (small, large) in halves.items()]
    holds = all(large > small for small, large in halves.values())
    return holds, f"{resource} {', '.join(texts)}"


def _overhead_by_size(fig11: pl.DataFrame) -> Answer:
    small, large = _halves(_both_parts(fig11), "mean_s")
    detail = f"{1e3 * small:.2f} ms over the smaller sizes, {1e3 * large:.2f} ms over the larger"
    return Answer(large > small, f"{detail}, {_source(fig11)}", timed=_timed(fig11))


def _overhead_of_sort(fig11: pl.DataFrame) -> Answer:
    both = _both_parts(fig11)
    sort, count = (fmean(both.filter(workload=name)["mean_s"]) for name in ("sort", "wordcount"))
    detail = f"{1e3 * sort:.2f} ms beside Sort, {1e3 * count:.2f} ms beside WordCount"
    return Answer(sort > count, f"{detail}, {_source(fig11)}", timed=_timed(fig11))


def _both_parts(fig11: pl.DataFrame) -> pl.DataFrame:
    """Seconds of collecting and reporting together, by job."""
    by = ("source", "workload", "size_bytes")
    return fig11.group_by(*by, maintain_order=True).agg(pl.col("mean_s").sum())


def _overhead(fig11: pl.DataFrame) -> Answer:
    """Mean over the jobs of each part, as the paper averages; the larger of the two."""
    parts = dict(fig11.group_by("part").agg(pl.col("mean_s").mean()).sort("part").iter_rows())
    each = ", ".join(f"{name} {1e3 * mean_s:.2g} ms" for name, mean_s in parts.items())
    detail = f"{each}, beside one job at most {1e3 * max(fig11['mean_s']):.2g} ms"
    return Answer(max(parts.values()), f"{detail}, {_source(fig11)}", timed=_timed(fig11))


def _source(frame: pl.DataFrame) -> str:
    return f"samples {frame['source'][0]}"


def _timed(frame: pl.DataFrame) -> bool:
    return bool(frame["source"][0] == "measured")


CONTENTION = Figure(
    id="contention",
    compute=samples,
    sizes={
        "wanted": Scaled[Measuring | None](
            smoke=None,  # the recorded samples
            default=Measuring(SIZES_BYTES, 0.5, 2, 0.1),
            paper=Measuring(PAPER_SIZES_BYTES, 60.0, 5, 60.0),
        )
    },
    recorded=True,
    live=True,
)

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

FIG10 = Figure(
    id="fig10",
    compute=usage,
    chart=draw_usage,
    of=(CONTENTION,),
    answers={
        "edgegossip.fig10.core": partial(_use_grows, resource="core", workloads=tuple(WORKLOADS)),
        "edgegossip.fig10.sort_disk": partial(_use_grows, resource="disk", workloads=("sort",)),
        "edgegossip.fig10.fluctuations": _fluctuations,
    },
    causes={
        "edgegossip.fig10.fluctuations": Cause(
            "ours",
            "WordCount here makes its input in memory and writes nothing, so it has no use of the "
            "disk that could fluctuate",
        ),
    },
    timings=True,
)

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
    causes=dict.fromkeys(
        ("edgegossip.fig11.size", "edgegossip.fig11.sort"),
        Cause(
            "data",
            "the paper reads counters beside MapReduce's executors, whose number it does not "
            "state; here there are as many processes as cores beside every job, so a reading takes "
            "as long",
        ),
    ),
    timings=True,
)


def main() -> None:
    """Record the samples again, in some minutes."""
    recorded = samples(RECORDING, seed=0).with_columns(source=pl.lit("recorded"))
    files.write_text(RECORDED, recorded.write_csv())


if __name__ == "__main__":
    main()
