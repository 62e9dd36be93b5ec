"""The performance predictor on this machine: Figs. 9 to 11.

One table of samples serves all three, at the scale "smoke" a recorded one (column ``source``);
``python -m workbench.edgegossip.paper.experiments.prediction`` records it anew.
"""

from __future__ import annotations

from typing import cast

import polars as pl

from workbench import atomic
from workbench.edgegossip.paper.experiments import scales
from workbench.edgegossip.paper.experiments.scales import PAPER_SIZES_BYTES, Measuring
from workbench.edgegossip.prediction.contention import Contention
from workbench.edgegossip.prediction.predictor import FORMS, RESOURCES, SECONDS, Predictor, fit
from workbench.edgegossip.prediction.profiling_runs import ALONE, SCHEMA, profiling_runs
from workbench.errors import UserError
from workbench.experiments import grid, sweep
from workbench.paths import DATA

RECORDED = DATA / "samples" / "edgegossip_contention.csv"


def samples(scale: str = "default", seed: int = 1) -> pl.DataFrame:
    """Contention and training time: recorded at the scale "smoke", else measured here and now.

    The scale "default" takes about 70 s; "paper", with the sizes of the paper, over two hours.
    `seed` is of the order of measuring. Rows are as of `profiling_runs`; ``source`` is "recorded"
    or "measured".
    """
    wanted = scales.MEASURING.at(scale)
    return pl.read_csv(RECORDED, schema=SCHEMA) if wanted is None else _measured(wanted, seed)


def _measured(wanted: Measuring, seed: int) -> pl.DataFrame:
    return profiling_runs(
        wanted.sizes,
        seconds_per_point=wanted.seconds_per_point,
        repeats=wanted.repeats,
        every_s=wanted.every_s,
        seed=seed,
    )


def fig9(measured: pl.DataFrame) -> pl.DataFrame:
    """Errors of prediction by workload and size, that size held out (Fig. 9).

    ``source, workload, size_bytes, samples``; mean and variance of the error of each of
    `held_out`'s predictions (percent squared; null of a single sample): ``followed_mean_percent``
    and ``followed_variance`` of the predictor, whose t_0 changes with the machine as the paper has
    it; ``mean_percent`` and ``variance`` by t_0 as it was fitted; ``naive_mean_percent`` and so on
    by t_0 measured alone, and ``naive_followed_mean_percent`` and so on by a moving average, both
    blind to contention.
    """
    kinds = [
        (pl.col(kind + "error_percent"), kind + name, how)
        for kind in PREDICTIONS
        for name, how in (("mean_percent", pl.Expr.mean), ("variance", pl.Expr.var))
    ]
    columns = [how(error).alias(name) for error, name, how in kinds]
    return _by_point(held_out(measured)).agg(pl.len().alias("samples"), *columns)


def fig10(measured: pl.DataFrame) -> pl.DataFrame:
    """Use of the shared resources by workload and size, without that of the training (Fig. 10).

    ``source, workload, size_bytes, resource`` (core in percent; network and disk in MB/s: see
    ``unit``), ``mean`` and ``two_sd``, two standard deviations over the samples.
    """
    units = dict(
        zip(
            RESOURCES,
            (("core", "percent", 100.0), ("network", "MB/s", 1e-6), ("disk", "MB/s", 1e-6)),
            strict=True,
        )
    )
    parts = []
    for column, (resource, unit, factor) in units.items():
        use = pl.col(column) * factor
        parts.append(
            _by_point(measured).agg(
                pl.lit(resource).alias("resource"),
                pl.lit(unit).alias("unit"),
                use.mean().alias("mean"),
                (2 * use.std()).alias("two_sd"),
            )
        )
    return pl.concat(parts)


def fig11(measured: pl.DataFrame) -> pl.DataFrame:
    """What collecting usages once and reporting them once takes, beside each job (Fig. 11).

    ``source, workload, size_bytes``; ``part``, "collecting" or "reporting"; ``mean_s`` and
    ``most_s`` over the samples.
    """
    parts = [
        _by_point(measured).agg(
            pl.lit(part).alias("part"),
            pl.col(column).mean().alias("mean_s"),
            pl.col(column).max().alias("most_s"),
        )
        for part, column in (("collecting", "sample_s"), ("reporting", "report_s"))
    ]
    return pl.concat(parts)


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
"""Columns of predictions, by how the names of what is said of them begin."""


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
        predicted_s, followed_s = _predictions(ordered, predictor)
        columns = {"predicted_s": predicted_s, "followed_s": followed_s}
        columns |= {"naive_s": naive[0], "naive_followed_s": naive[1]}
        named = [pl.Series(name, seconds) for name, seconds in columns.items()]
        parts.append(ordered.with_columns(named).filter(size_bytes=size))
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
    state, predicted_s, followed_s = predictor.start(), [], []
    for *resources, seconds in ordered.select(*RESOURCES, SECONDS).iter_rows():
        contention = Contention(*resources)
        predicted_s.append(predictor.seconds(predictor.start(), contention))
        followed_s.append(predictor.seconds(state, contention))
        state = predictor.observe(state, contention, seconds)
    return predicted_s, followed_s


FORM_ERRORS = {
    "form": pl.String,
    **dict.fromkeys(("error_percent", "followed_error_percent"), pl.Float64),
    "reason": pl.String,
}


def forms(measured: pl.DataFrame) -> pl.DataFrame:
    """Mean error on held-out sizes of each form of RG.

    Columns ``form``, ``error_percent`` and, where t_0 is followed, ``followed_error_percent``; null
    with a ``reason`` where a form cannot be fitted.
    """
    points, shared = grid(form=FORMS), {"measured": measured}
    return sweep("Forms", _errors, points, FORM_ERRORS, shared=shared, failures=ValueError)


def _errors(form: str, measured: pl.DataFrame, **_: object) -> dict[str, float]:
    errors = pl.col("error_percent", "followed_error_percent")
    return held_out(measured, form).select(errors.mean()).row(0, named=True)


def main() -> None:
    """Record the samples anew, in some minutes, and say how well each form predicts them."""
    recorded = _measured(scales.RECORDING, seed=0).with_columns(source=pl.lit("recorded"))
    atomic.write_text(RECORDED, recorded.write_csv())
    with pl.Config(tbl_rows=-1):
        print(forms(samples("smoke")))


if __name__ == "__main__":
    main()
