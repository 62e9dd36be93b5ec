"""Figs. 9 to 11 on the recorded samples, and what they say of the predictor."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from workbench.edgegossip.paper import prediction
from workbench.edgegossip.paper.prediction import CONTENTION, held_out
from workbench.edgegossip.prediction.predictor import FORMS
from workbench.edgegossip.prediction.profiling_runs import SCHEMA
from workbench.utils.checks import UnknownNameError

RECORDED = CONTENTION.frame("smoke")
PREDICTED = held_out(RECORDED)
ERRORS = prediction.errors(RECORDED)


def test_the_recorded_samples_say_so() -> None:
    assert RECORDED.schema == pl.Schema(SCHEMA)
    assert RECORDED["source"].unique().to_list() == ["recorded"]
    assert set(RECORDED["workload"]) == {"none", "wordcount", "sort"}
    assert RECORDED.filter(pl.col("size_bytes") > 0)["size_bytes"].n_unique() == 13


def wrong_where(**where: object) -> pl.DataFrame:
    """The recorded samples with another time in the rows that match."""
    seconds = pl.when(**where).then(9.0).otherwise("seconds_per_sample")
    return RECORDED.with_columns(seconds_per_sample=seconds)


def test_what_is_held_out_was_not_learnt_from() -> None:
    size = RECORDED["size_bytes"].max()
    before, after = (
        frame.filter(size_bytes=size)["predicted_s"]
        for frame in (PREDICTED, held_out(wrong_where(size_bytes=size)))
    )
    assert before.to_list() == after.to_list()


def test_following_looks_at_earlier_samples_only() -> None:
    beside = RECORDED.filter(pl.col("size_bytes") > 0).sort("order").row(-1, named=True)
    last, size = beside["order"], beside["size_bytes"]
    # Its own size is not learnt from either, so nothing that is predicted there may change.
    before, after = (
        held_out(frame.filter(pl.col("order") <= last)).filter(size_bytes=size)["followed_s"]
        for frame in (RECORDED, wrong_where(order=last))
    )
    assert before.to_list() == after.to_list()


def test_figure_9_is_the_error_of_means_over_a_jobs_windows() -> None:
    assert ERRORS.height == 26
    row = ERRORS.row(5, named=True)
    windows = PREDICTED.filter(workload=row["workload"], size_bytes=row["size_bytes"])
    measured_s = windows["seconds_per_sample"].to_numpy()
    alone_s = np.mean(RECORDED.filter(workload="none")["seconds_per_sample"].to_numpy())
    assert row["samples"] == len(measured_s) == 6
    for name, predicted_s in (
        ("followed_percent", np.mean(windows["followed_s"].to_numpy())),
        ("predicted_percent", np.mean(windows["predicted_s"].to_numpy())),
        ("naive_percent", alone_s),
    ):
        assert row[name] == pytest.approx(100 * abs(predicted_s / np.mean(measured_s) - 1))
    single = 100 * (windows["followed_s"].to_numpy() / measured_s - 1)
    assert row["window_percent"] == pytest.approx(np.mean(abs(single)))
    assert row["variance"] == pytest.approx(np.var(single, ddof=1))


def test_contention_explains_the_times() -> None:
    """Where others take cores, who looks at that must predict better than who does not."""
    largest = ERRORS.filter(pl.col("size_bytes").rank("dense", descending=True) <= 2)
    for rows, factor in ((ERRORS, 1), (largest, 2)):
        means = rows.select(pl.col("^.*percent$").mean()).row(0, named=True)
        for name in ("predicted_percent", "followed_percent"):
            assert factor * means[name] < means["naive_percent"]


def test_figure_10_has_means_and_two_standard_deviations() -> None:
    frame = prediction.usage(RECORDED)
    assert frame.height == 26 * 3
    row = frame.filter(resource="disk", workload="sort").row(-1, named=True)
    own = RECORDED.filter(workload="sort", size_bytes=row["size_bytes"])["disk_bytes_per_s"]
    assert row["mean"] == pytest.approx(np.mean(own.to_numpy()) / 1e6)
    assert row["two_sd"] == pytest.approx(2 * np.std(own.to_numpy(), ddof=1) / 1e6)
    assert row["unit"] == "MB/s"


def test_figure_11_has_both_parts() -> None:
    frame = prediction.overheads(RECORDED)
    assert frame.height == 26 * 2
    row = frame.filter(part="reporting", workload="wordcount").row(0, named=True)
    own = RECORDED.filter(workload="wordcount", size_bytes=row["size_bytes"])["report_s"]
    assert row["mean_s"] == pytest.approx(np.mean(own.to_numpy()))
    assert row["most_s"] == own.max()


def test_no_form_is_clearly_better_on_sizes_held_out_than_the_one_in_use() -> None:
    """By more than a tenth: less is within what another recording changes."""
    by_form = {form: held_out(RECORDED, form) for form in FORMS}
    for column in ("predicted_s", "followed_s"):
        off = (pl.col(column) / pl.col("seconds_per_sample") - 1).abs().mean()
        errors = {form: frame.select(off).item() for form, frame in by_form.items()}
        assert errors["share"] <= 1.1 * min(errors.values())


def test_refused() -> None:
    with pytest.raises(UnknownNameError, match="smoke"):
        CONTENTION.frame("small")
    with pytest.raises(ValueError, match="at least two"):
        held_out(RECORDED.filter(pl.col("size_bytes") < 3000))
    with pytest.raises(ValueError, match="no sample of the training alone"):
        held_out(RECORDED.filter(pl.col("size_bytes") > 0))
