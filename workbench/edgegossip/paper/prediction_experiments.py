"""The performance predictor tried on this machine: Figs. 9 to 11 of Han et al. 2021.

One table of samples serves all three. At the scale "smoke" it is one that was recorded, which its
column ``source`` says; ``python -m workbench.edgegossip.paper.prediction_experiments`` records it
anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from workbench import atomic
from workbench.edgegossip.paper.held_out import PREDICTIONS, forms, held_out
from workbench.edgegossip.prediction.predictor import RESOURCES
from workbench.edgegossip.prediction.profiling_runs import ALONE, SCHEMA, profiling_runs
from workbench.names import choose
from workbench.paths import DATA

RECORDED = DATA / "samples" / "edgegossip_contention.csv"

PAPER_SIZES_BYTES = tuple(step * 10**power for power in range(6, 11) for step in (1, 2, 5))[:13]
# As many and as far apart, but begun ten times a second: beside the smallest two cores are all but
# free, beside the largest two without a pause, and a second sees some jobs from begin to end.
SIZES_BYTES = tuple(size // 500 for size in PAPER_SIZES_BYTES)


class Scale(NamedTuple):
    """What `profiling_runs` measures."""

    sizes: Sequence[int]
    seconds_per_point: float
    repeats: int
    every_s: float


SCALES = {
    "smoke": None,  # the recorded samples
    "default": Scale(SIZES_BYTES, 0.7, 2, 0.1),
    "paper": Scale(PAPER_SIZES_BYTES, 60.0, 5, 60.0),
}
RECORDING = Scale(SIZES_BYTES, 1.0, 6, 0.1)


def samples(scale: str = "default", seed: int = 0) -> pl.DataFrame:
    """Contention and training time: recorded at the scale "smoke", else measured here and now.

    Parameters
    ----------
    scale
        "smoke", at once; "default", about 70 s; "paper", the sizes of the paper, over two hours.
    seed
        Of the order of measuring.

    Returns
    -------
    polars.DataFrame
        As `profiling_runs` gives it; ``source`` is "recorded" or "measured".
    """
    wanted = choose("scale", scale, SCALES)
    if wanted is None:
        return pl.read_csv(RECORDED, schema=SCHEMA)
    return _measured(wanted, seed)


def _measured(scale: Scale, seed: int) -> pl.DataFrame:
    return profiling_runs(
        scale.sizes,
        seconds_per_point=scale.seconds_per_point,
        repeats=scale.repeats,
        every_s=scale.every_s,
        seed=seed,
    )


def fig9(measured: pl.DataFrame) -> pl.DataFrame:
    """Errors of prediction by workload and size, that size held out (Fig. 9).

    Returns
    -------
    polars.DataFrame
        ``source, workload, size_bytes, samples``; mean and variance of the error of each of
        `held_out`'s predictions (percent squared; null of a single sample):
        ``followed_mean_percent`` and ``followed_variance`` of the predictor, whose t_0 changes
        with the machine as the paper has it; ``mean_percent`` and ``variance`` by t_0 as it was
        fitted; ``naive_mean_percent`` and so on by t_0 measured alone, and
        ``naive_followed_mean_percent`` and so on by a moving average, both blind to contention.
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

    Returns
    -------
    polars.DataFrame
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

    Returns
    -------
    polars.DataFrame
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


def sizes_told(frame: pl.DataFrame) -> str:
    """Say beside jobs of how many sizes, and of which, the rows of a figure are.

    Parameters
    ----------
    frame
        With a column ``size_bytes``.
    """
    sizes = frame["size_bytes"].unique().sort().to_list()
    told = f"{len(sizes)} sizes, {_bytes(sizes[0])} to {_bytes(sizes[-1])}"
    first, last = min(PAPER_SIZES_BYTES), max(PAPER_SIZES_BYTES)
    if (sizes[0], sizes[-1]) == (first, last):
        return f"{told} as in the paper"
    return f"{told} (the paper: {len(PAPER_SIZES_BYTES)}, {_bytes(first)} to {_bytes(last)})"


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


def main() -> None:
    """Record the samples anew, in some minutes, and say how well each form predicts them."""
    recorded = _measured(RECORDING, seed=0).with_columns(source=pl.lit("recorded"))
    atomic.write_text(RECORDED, recorded.write_csv())
    with pl.Config(tbl_rows=-1):
        print(forms(samples("smoke")))


if __name__ == "__main__":
    main()
