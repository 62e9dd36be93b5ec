"""Last rows, accuracies to wait for and seconds until them, by hand."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from workbench.dlion.paper.accuracy import STATED_TARGET, ended, final, seconds_to, target_of

Curve = Mapping[float, float | None]


def curve(top1: Curve, seed: int = 1, system: str = "dlion", seconds: float = 30.0) -> pl.DataFrame:
    """A training: accuracy by second."""
    rows = [
        {"system": system, "seed": seed, "seconds": seconds, "at_s": at_s, "top1": value}
        for at_s, value in top1.items()
    ]
    return pl.DataFrame(
        rows, schema_overrides={"top1": pl.Float64, "at_s": pl.Float64}
    ).with_columns(reason=pl.lit(None, pl.String))


FAILED = pl.DataFrame(
    [{"system": "ako", "seed": 1, "seconds": 30.0, "reason": "diverged"}],
    schema_overrides={"at_s": pl.Float64, "top1": pl.Float64},
)
ONE = curve({10.0: 0.2, 20.0: 0.6, 30.0: 0.5})


def with_failed(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([FAILED, frame], how="diagonal_relaxed").select(frame.columns)


class TestFinal:
    def test_is_the_last_row(self) -> None:
        assert final(ONE)["top1"].to_list() == [0.5]
        assert final(pl.concat([ONE, curve({30.0: 0.4}, seed=2)]))["top1"].to_list() == [0.5, 0.4]

    def test_not_of_what_failed_or_ended_early_or_was_not_evaluated(self) -> None:
        assert final(with_failed(ONE))["system"].to_list() == ["dlion"]
        assert final(curve({10.0: 0.2, 20.0: 0.4})).is_empty()
        assert final(curve({10.0: 0.2, 30.0: None})).is_empty()

    def test_what_failed_is_left_out(self) -> None:
        assert ended(with_failed(ONE)).equals(ONE)


class TestTarget:
    def test_is_the_papers_where_all_get_there(self) -> None:
        assert STATED_TARGET == 0.7
        assert target_of(curve({10.0: 0.9, 30.0: 0.8})) == 0.7

    def test_is_what_all_reach_where_one_does_not(self) -> None:
        others = curve({10.0: 0.3, 20.0: 0.75}, system="gaia")
        assert target_of(pl.concat([ONE, others])) == 0.6

    def test_is_of_each_seed(self) -> None:
        assert target_of(pl.concat([ONE, curve({30.0: 0.3}, seed=2)])) == 0.3

    def test_does_not_ask_what_failed(self) -> None:
        assert target_of(with_failed(ONE)) == 0.6
        assert target_of(ONE.with_columns(top1=pl.lit(None, pl.Float64))) == 0


class TestSeconds:
    @pytest.mark.parametrize(
        ("target", "at_s"), [(0.1, 5.0), (0.2, 10.0), (0.4, 15.0), (0.6, 20.0), (0.61, None)]
    )
    def test_between_rows_it_is_interpolated(self, target: float, at_s: float | None) -> None:
        assert seconds_to(ONE, target) == (None if at_s is None else pytest.approx(at_s))

    def test_rows_may_come_in_any_order_and_some_have_no_accuracy(self) -> None:
        frame = curve({20.0: 0.6, 5.0: None, 10.0: 0.2})
        assert seconds_to(frame, 0.4) == pytest.approx(15)

    def test_is_a_mean_over_seeds(self) -> None:
        other = curve({10.0: 0.4, 20.0: 0.4}, seed=2)
        assert seconds_to(pl.concat([ONE, other]), 0.4) == pytest.approx((15 + 10) / 2)

    def test_never_if_one_seed_never_gets_there(self) -> None:
        other = curve({10.0: 0.1, 20.0: 0.1}, seed=2)
        assert seconds_to(pl.concat([ONE, other]), 0.4) is None

    def test_nothing_never_gets_there(self) -> None:
        assert seconds_to(ONE.clear(), 0.4) is None

    def test_an_accuracy_of_nothing_is_there_at_once(self) -> None:
        assert seconds_to(ONE, 0.0) == 0
        assert seconds_to(curve({10.0: 0.0}), 0.0) == 10
