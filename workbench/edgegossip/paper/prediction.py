"""Figs. 9 to 11: the performance predictor on this machine.

One table of samples serves all three, at the scale "smoke" a recorded one (column ``source``);
``python -m workbench.edgegossip.paper.prediction`` records it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple, cast

import altair as alt
import polars as pl

from workbench import figures
from workbench.edgegossip.prediction.predictor import (
    FORMS,
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
from workbench.reproduction.sweep import grid, sweep
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

    ``source, workload, size_bytes, samples``; mean and variance of the error of each of
    `held_out`'s predictions (percent squared; null of a single sample): ``followed_mean_percent``
    and ``followed_variance`` of the predictor, whose t_0 changes with the machine as the paper has
    it; ``mean_percent`` and ``variance`` by t_0 as it was fitted; ``naive_mean_percent`` and so on
    by t_0 measured alone, and ``naive_followed_mean_percent`` and so on by a moving average, both
    blind to contention.
    """
    columns = [pl.len().alias("samples")]
    for kind in PREDICTIONS:
        error = pl.col(kind + "error_percent")
        columns += [error.mean().alias(kind + "mean_percent"), error.var().alias(kind + "variance")]
    return _by_point(held_out(measured)).agg(columns)


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
    ``naive_followed_s``; and the error of each in percent of the measured time: ``error_percent``,
    ``followed_error_percent``, ``naive_error_percent`` and ``naive_followed_error_percent``.
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
    errors = {
        prefix + "error_percent": 100 * (pl.col(column) / pl.col(SECONDS) - 1).abs()
        for prefix, column in PREDICTIONS.items()
    }
    return pl.concat(parts).with_columns(**errors)


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


def forms(measured: pl.DataFrame) -> pl.DataFrame:
    """Mean error on held-out sizes of each form of RG.

    Columns ``form``, ``error_percent`` and, where t_0 is followed, ``followed_error_percent``; null
    with a ``reason`` where a form cannot be fitted.
    """
    schema = {
        "form": pl.String,
        **dict.fromkeys(("error_percent", "followed_error_percent"), pl.Float64),
        "reason": pl.String,
    }
    shared = {"measured": measured}
    return sweep(
        _errors, grid(form=FORMS), schema, title="Forms", shared=shared, failures=ValueError
    )


def _errors(form: str, measured: pl.DataFrame) -> dict[str, float]:
    errors = pl.col("error_percent", "followed_error_percent")
    return held_out(measured, form).select(errors.mean()).row(0, named=True)


def draw_errors(frame: pl.DataFrame) -> alt.FacetChart:
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
    percent = fmean(fig9["followed_mean_percent"])
    blind = [fmean(fig9[f"naive_{kind}mean_percent"]) for kind in ("", "followed_")]
    detail = f"{_source(fig9)}; blind to contention {blind[0]:.1f} %, as a moving average "
    return Answer(percent, f"{detail}{blind[1]:.1f} %", timed=_timed(fig9))


def _error_by_size(fig9: pl.DataFrame) -> Answer:
    halves = fig9.with_columns(
        large=pl.col("size_bytes") > pl.col("size_bytes").median().over("workload")
    )
    means = dict(halves.group_by("large").agg(pl.col("followed_mean_percent").mean()).rows())
    detail = f"{means[False]:.1f} % over the smaller sizes, {means[True]:.1f} % over the larger"
    return Answer(means[True] >= means[False], detail, timed=_timed(fig9))


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
    causes={
        "edgegossip.fig9.error": Cause(
            "data",
            "the paper predicts MapReduce jobs of 1 MB to 10 GB on a cluster; here jobs of "
            "seconds run on one machine, whose contention changes as fast",
        ),
    },
    timings=True,
)

FIG10 = Figure(id="fig10", compute=usage, chart=draw_usage, of=(CONTENTION,), timings=True)

FIG11 = Figure(
    id="fig11",
    compute=overheads,
    chart=draw_overheads,
    of=(CONTENTION,),
    answers={"edgegossip.fig11.overhead": _overhead},
    timings=True,
)


def main() -> None:
    """Record the samples again, in some minutes, and say how well each form predicts them."""
    recorded = samples(RECORDING, seed=0).with_columns(source=pl.lit("recorded"))
    files.write_text(RECORDED, recorded.write_csv())
    with pl.Config(tbl_rows=-1):
        print(forms(samples(None)))


if __name__ == "__main__":
    main()
