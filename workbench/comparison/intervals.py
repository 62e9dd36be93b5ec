"""Intervals of predicted rates, and which rates are too close to call.

Both are from errors of predictions of what others measured (`workbench validate`), by kind:

- ``averaging``: nodes with copies of a model exchange gradients or parameters (AdaptDL, Gavel,
  Hivemind). These are predicted from a single worker's measured time.
- ``pipelines``: nodes compute parts of one model (Sailor, vTrain).
- ``layers``: seconds of layers on one node from its FLOP/s, which fit the node (FLASH).

A method of the first two kinds has errors of the kind ``layers`` too, unless all of its nodes have
measured layer times; then the wider of both counts. One node with measured times is as uncertain as
``averaging``: nothing simpler was measured.

Two rates of one model on one cluster share errors, so that intervals may overlap though the order
is sure. They are too close to call within the margin of their kinds, again the wider: where two
predictions of one model were as far apart as this, nine in ten pairs were measured in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from workbench.clusters.testbeds import load_calibration
from workbench.utils.checks import choose

if TYPE_CHECKING:
    from workbench.comparison.methods.method import Method

KINDS = ("averaging", "pipelines", "layers")


class Errors(NamedTuple):
    """Errors of a kind: 90 % of measured over predicted seconds are from `low` to `high`.

    In 90 % of pairs a predicted ratio of two times exceeds the measured one by less than `margin`.
    """

    low: float
    high: float
    margin: float


@cache
def errors_of(kind: str) -> Errors:
    """The errors of a kind, which `workbench.comparison.validation.calibration` computes."""
    interval = choose("kind", kind, load_calibration("validation")["intervals"])
    return Errors(interval["low"], interval["high"], interval["margin"])


def held_out(kind: str) -> float:
    """Percentage of rows in an interval that was computed without them."""
    return float(load_calibration("validation")["intervals"][kind]["held_out"])


def kinds_of(method: Method, *, timed: bool = False) -> tuple[str, ...]:
    """Kinds of a method's errors; `timed` if all of its nodes have measured layer times."""
    if method.system == "one node":
        return ("averaging",) if timed else ("layers",)
    exchange = "pipelines" if method.splits_model else "averaging"
    return (exchange,) if timed else (exchange, "layers")


def widest(*kinds: str) -> Errors:
    """The lowest, the highest and the widest of the errors of several kinds."""
    low, high, margin = zip(*map(errors_of, kinds), strict=True)
    return Errors(min(low), max(high), max(margin))


def with_intervals(frame: pl.DataFrame, kinds: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Add ``low_samples_per_s``, ``high_samples_per_s`` and ``too_close`` to methods with rates.

    `frame` has columns ``method, samples_per_s`` and may have ``fits``; `kinds` are those of each
    method's errors. ``too_close`` names the other methods that are too close to call and fit in
    memory, with ``"; "`` in between.
    """
    rates = dict(frame.select("method", "samples_per_s").drop_nulls().iter_rows())
    unfit = frame.filter(~pl.col("fits"))["method"].to_list() if "fits" in frame.columns else []
    rows: list[tuple[float | None, float | None, str | None]] = []
    for method in frame["method"]:
        if method not in rates:
            rows.append((None, None, None))
            continue
        rate, errors = rates[method], widest(*kinds[method])
        close = [
            other
            for other, other_rate in rates.items()
            if other not in (method, *unfit)
            and max(rate / other_rate, other_rate / rate)
            < widest(*kinds[method], *kinds[other]).margin
        ]
        rows.append((rate / errors.high, rate / errors.low, "; ".join(close)))
    columns = {
        "low_samples_per_s": pl.Float64,
        "high_samples_per_s": pl.Float64,
        "too_close": pl.String,
    }
    return frame.with_columns(pl.DataFrame(rows, schema=columns, orient="row"))
