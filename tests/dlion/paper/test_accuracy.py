"""Last rows, accuracies to wait for and seconds until them, by hand."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from workbench.dlion.paper.accuracy import seconds_to

Curve = Mapping[float, float | None]


def curve(top1: Curve, seed: int = 1) -> pl.DataFrame:
    """A training: accuracy by second."""
    rows = [
        {"system": "dlion", "seed": seed, "seconds": 30.0, "at_s": at_s, "top1": value}
        for at_s, value in top1.items()
    ]
    return pl.DataFrame(
        rows, schema_overrides={"top1": pl.Float64, "at_s": pl.Float64}
    ).with_columns(reason=pl.lit(None, pl.String))


ONE = curve({10.0: 0.2, 20.0: 0.6, 30.0: 0.5})


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
