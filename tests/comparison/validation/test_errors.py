"""Errors: signed, of usable runs alone, with intervals that hold what they promise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from workbench.comparison.validation import charts, errors
from workbench.comparison.validation.recording import SCHEMA, recorded_runs


def run(**changed: object) -> dict[str, object]:
    """A run of 1 s an iteration, as it was predicted."""
    usual: dict[str, object] = {
        **dict.fromkeys(SCHEMA),
        **dict.fromkeys(("predicted_s", "simulated_s", "naive_s", "measured_s"), 1.0),
        **{"deadlines": 10, "late": 0, "late_s": 0.0, "steal": 0.0},
        **{"system": "dynacomm", "setting": "here", "choice": "one", "regime": "computing"},
        **{"ordered": False, "same_weights": True, "void": False, "fits": True},
    }
    return usual | changed


def frame(*runs: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(runs, schema=SCHEMA)


def measured(
    choice: str, said_s: float, *seconds: float, **more: object
) -> list[dict[str, object]]:
    """Runs of a choice that was said to take so long."""
    said = dict.fromkeys(("predicted_s", "simulated_s"), said_s)
    return [run(choice=choice, measured_s=each, **said, **more) for each in seconds]


def test_an_error_is_below_0_where_the_iteration_takes_longer_than_was_said() -> None:
    found = errors.errors(frame(run(measured_s=1.25, naive_s=2.5)))
    by_way = dict(zip(found["way"], found["error"], strict=True))
    assert by_way == pytest.approx({"predicted": -0.2, "simulated": -0.2, "naive": 1.0})


def test_void_and_failed_runs_are_counted_and_left_out() -> None:
    unusable = run(measured_s=9.0, void=True), run(measured_s=None, reason="died")
    runs = frame(run(measured_s=1.1), *unusable)
    (row,) = errors.by_case(runs).iter_rows(named=True)
    assert (row["runs"], row["void"], row["measured_s"]) == (3, 1, 1.1)
    assert errors.summary(runs)["runs"].unique().to_list() == [1]
    (row,) = errors.by_case(frame(*unusable)).iter_rows(named=True)
    assert (row["measured_s"], row["low_s"]) == (None, None)


@pytest.mark.parametrize("count", [6, 7, 10, 11, 20, 31])
def test_an_interval_of_order_statistics_is_the_narrowest_that_is_sure_enough(count: int) -> None:
    low, high = errors.order_interval(np.arange(count, dtype=float))
    rank = int(low)
    assert high == count - 1 - rank

    def coverage(rank: int) -> float:  # that between rank + 1 and count - rank - 1 lie below
        return float(binom.cdf(count - rank - 1, count, 0.5) - binom.cdf(rank, count, 0.5))

    assert coverage(rank) >= 0.95 > coverage(rank + 1)


def test_few_values_have_the_interval_from_the_least_to_the_greatest() -> None:
    assert errors.order_interval(np.array([3.0, 1.0, 2.0])) == (1.0, 3.0)


def test_a_summary_has_the_size_of_errors_and_the_sign_of_the_worst() -> None:
    seconds = 1 / 1.01, 1 / 0.8, 1 / 1.1
    found = errors.summary(frame(*measured("one", 1.0, *seconds))).filter(way="simulated")
    (row,) = found.iter_rows(named=True)
    assert (row["cases"], row["runs"]) == (1, 3)
    assert (row["median"], row["worst"]) == pytest.approx((1, -20))
    assert row["p95"] == pytest.approx(np.quantile([1, 20, 10], 0.95))


@pytest.mark.parametrize(
    ("fast_s", "slow_s", "agrees"),
    [
        ([1.0, 1.1], [1.5, 1.6], True),
        ([1.6, 1.6], [1.5, 1.5], False),
        ([1.0, 2.0], [1.1, 2.1], None),  # said to differ by less than the spread
    ],
)
def test_order_is_judged_where_the_choices_are_apart(
    fast_s: list[float], slow_s: list[float], agrees: bool | None
) -> None:
    elsewhere = run(choice="other", setting="there")
    runs = [*measured("fast", 1.0, *fast_s * 5), *measured("slow", 1.5, *slow_s * 5), elsewhere]
    (pair,) = errors.order(frame(*runs)).iter_rows(named=True)
    assert (pair["faster"], pair["slower"]) == ("fast", "slow")
    assert (pair["apart"], pair["agrees"]) == (agrees is not None, agrees)
    assert pair["said_percent"] == pytest.approx(50)


def test_the_goal_is_about_long_iterations_that_fit() -> None:
    beside = *measured("short", 0.05, 0.5), *measured("overloaded", 1.0, 3.0, fits=False)
    kept, missed = (frame(*measured("long", 1.0, *[s] * 10), *beside) for s in (1.01, 1.2))
    for runs, met in ((kept, True), (missed, False)):
        goals = errors.goals(runs).filter(way="simulated")
        assert goals.select("runs", "met").rows() == [(10, met)]
    assert errors.over(missed)["choice"].to_list() == ["short", "overloaded", "long"]
    assert errors.over(missed)["percent"][-1] == pytest.approx(-100 / 6)
    assert errors.goals(frame(run(void=True))).is_empty()


def test_equal_weights_and_what_disturbed_the_runs_are_counted_by_system() -> None:
    other = run(same_weights=False, system="dlion", ordered=True)
    assert errors.weights(frame(run(), other, run(same_weights=None)))["same"].to_list() == [1, 0]
    (row,) = errors.machine(frame(run(late=5), run(steal=0.1, void=True))).iter_rows(named=True)
    assert (row["runs"], row["void"], row["late_percent"], row["steal_percent"]) == (2, 1, 50, 10)


def test_recorded_runs_in_which_work_takes_its_own_time_are_not_shown() -> None:
    runs = recorded_runs()
    assert runs["arm"].unique().to_list() == ["padded"]
    for chart in (charts.draw_errors(runs), charts.draw_system(runs, "hiertrain")):
        assert "on one machine" in str(chart.to_dict()["title"])
