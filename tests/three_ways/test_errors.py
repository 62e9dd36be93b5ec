"""Errors: signed, of usable runs alone, with intervals that hold what they promise."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from workbench.three_ways import charts, errors
from workbench.three_ways.recording import SCHEMA


def run(**changed: object) -> dict[str, object]:
    """A run of 1 s an iteration, as it was predicted."""
    usual: dict[str, object] = {
        **dict.fromkeys(SCHEMA),
        **dict.fromkeys(("predicted_s", "simulated_s", "naive_s", "measured_s"), 1.0),
        **dict.fromkeys(("deadlines", "works", "iterations", "nodes"), 10),
        **dict.fromkeys(("late", "works_late", "repetition"), 0),
        **dict.fromkeys(("late_s", "worst_late_s", "works_late_s", "steal", "load"), 0.0),
        **{"system": "dynacomm", "setting": "here", "choice": "one", "arm": "padded"},
        **{"regime": "computing", "predicted_by": "cost model", "priority": "nice 0"},
        **{"ordered": False, "held_out": True, "same_weights": True, "void": False, "fits": True},
    }
    return usual | changed


def frame(*runs: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(runs, schema=SCHEMA)


def measured(
    choice: str, said_s: float, *seconds: float, **changed: object
) -> list[dict[str, object]]:
    """Runs of a choice that was said to take so long."""
    said = dict.fromkeys(("predicted_s", "simulated_s"), said_s)
    return [
        run(choice=choice, measured_s=each, repetition=at, **said, **changed)
        for at, each in enumerate(seconds)
    ]


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


def test_an_interval_over_cases_is_wider_than_one_over_runs_that_are_alike() -> None:
    cases = [np.full(10, value) for value in (-0.04, -0.02, 0.0, 0.02, 0.04)]
    together = errors.spread([np.concatenate(cases)])
    apart = errors.spread(cases)
    assert apart.high - apart.low > together.high - together.low
    assert (apart.median, apart.worst) == (together.median, together.worst)


def test_the_spread_says_the_size_and_the_sign_of_the_worst() -> None:
    found = errors.spread([np.array([0.01, -0.2, 0.1])])
    assert (found.worst, found.median) == (-0.2, 0.01)
    assert found.p95 == pytest.approx(np.quantile([0.01, 0.2, 0.1], 0.95))


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
    runs = frame(*measured("fast", 1.0, *fast_s * 5), *measured("slow", 1.5, *slow_s * 5))
    (pair,) = errors.order(runs).iter_rows(named=True)
    assert (pair["faster"], pair["slower"]) == ("fast", "slow")
    assert (pair["apart"], pair["agrees"]) == (agrees is not None, agrees)
    assert pair["said_percent"] == pytest.approx(50)
    apart, right = (int(one) for one in (agrees is not None, agrees is True))
    assert errors.agreement(errors.order(runs)).startswith(f"{right} of {apart} pairs")


def test_choices_of_other_settings_and_arms_are_not_compared() -> None:
    others = [
        run(choice=choice, setting=setting, arm=arm)
        for choice, (setting, arm) in zip(
            "abcd", product(("here", "there"), ("padded", "unpadded")), strict=True
        )
    ]
    assert errors.order(frame(*others)).is_empty()


def test_the_goal_is_about_long_iterations_that_fit() -> None:
    runs = frame(
        *measured("long", 1.0, *[1.01] * 10),
        *measured("short", 0.05, *[0.5] * 10),
        *measured("overloaded", 1.0, *[3.0] * 10, fits=False),
    )
    assert errors.within_goal(runs)["choice"].unique().to_list() == ["long"]
    assert errors.goals(runs)["met"].all()
    assert "padded, simulated: median -1.0 %, p95 1.0 %; the goal is met" in errors.verdict(runs)
    assert "not about 20 usable runs" in errors.verdict(runs)
    missed = frame(*measured("long", 1.0, *[1.2] * 10))
    assert errors.goals(missed).filter(way="simulated")["met"].to_list() == [False]
    assert errors.goals(frame(run(void=True))).is_empty()
    assert errors.over(missed)["percent"].to_list() == pytest.approx([-100 / 6])


def test_an_arm_that_misses_the_goal_is_not_hidden_by_the_other() -> None:
    runs = frame(
        *measured("long", 1.0, *[1.01] * 90),
        *measured("long", 1.0, *[1.2] * 4, arm="unpadded"),
    )
    assert errors.summary(runs).filter(way="simulated")["p95"].item() < 10
    met = errors.goals(runs).filter(way="simulated").select("arm", "met")
    assert met.rows() == [("padded", True), ("unpadded", False)]


def test_equal_weights_and_what_disturbed_the_runs_are_told_by_system() -> None:
    other = run(same_weights=False, system="dlion", ordered=True)
    assert errors.weights(frame(run(), other, run(same_weights=None)))["same"].to_list() == [1, 0]
    (row,) = errors.machine(frame(run(late=5), run(steal=0.1, void=True))).iter_rows(named=True)
    assert (row["runs"], row["void"]) == (2, 1)
    assert (row["late_percent"], row["steal_percent"]) == (50, 10)


def test_one_machine_stands_in_every_title() -> None:
    runs = frame(
        *measured("hiertrain", 1.0, 1.1, 1.2, system="hiertrain", setting="m, 3.5 Mbit/s"),
        *measured("all_edge", 2.0, 2.1, system="hiertrain", setting="m, 3.5 Mbit/s"),
    )
    of_system = charts.draw_system(runs, "hiertrain")
    for chart in (charts.draw_errors(runs), of_system, charts.draw_fig6(runs)):
        assert "on one machine" in str(chart.to_dict()["title"])
