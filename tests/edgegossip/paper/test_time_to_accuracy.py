"""Seconds until an accuracy, read from curves by hand."""

import numpy as np
import polars as pl
import pytest

from workbench.edgegossip.paper.trainings import (
    BELOW_POINTS,
    seconds_to_accuracy,
    seconds_until,
)
from workbench.reproduction import recordings

ABOUT = {"model": "m", "learner": "m", "platforms": 4, "imbalance": 1.0, "kept": 0.5}
PLAIN = {"method": "gosgd", "technique": None, "ratio": None, "strategy": None, "order": None}
OURS = {"method": "edgegossip", "technique": "t", "ratio": 10.0, "strategy": "s", "order": "o"}
Curve = dict[float, float]


def curves(plain: Curve, ours: Curve, seed: int = 1) -> pl.DataFrame:
    """A training with both methods: accuracy by second of each epoch."""
    rows = [
        ABOUT | about | {"seed": seed, "epoch": epoch, "at_s": at_s, "top1": top1}
        for about, curve in ((PLAIN, plain), (OURS, ours))
        for epoch, (at_s, top1) in enumerate(curve.items(), 1)
    ]
    types = {"ratio": pl.Float64} | dict.fromkeys(("technique", "strategy", "order"), pl.String)
    return pl.DataFrame(rows, schema_overrides=types)


FIRST = curves({10.0: 0.5, 20.0: 0.88, 30.0: 0.9}, {4.0: 0.4, 8.0: 0.86, 12.0: 0.875})


def test_the_first_epoch_at_the_accuracy_counts() -> None:
    assert BELOW_POINTS == 3
    row = seconds_to_accuracy(FIRST, "model").row(0, named=True)
    assert row["wanted_percent"] == pytest.approx(87)
    assert (row["gosgd_s"], row["edgegossip_s"]) == (20, 12)
    assert row["times_as_fast"] == pytest.approx(20 / 12)


def test_falling_back_later_does_not_matter() -> None:
    frame = curves({10.0: 0.95, 20.0: 0.5, 30.0: 0.9}, {4.0: 0.9, 8.0: 0.1, 12.0: 0.1})
    row = seconds_to_accuracy(frame, "model").row(0, named=True)
    assert (row["gosgd_s"], row["edgegossip_s"]) == (10, 4)


def test_seeds_have_accuracies_of_their_own_and_are_averaged() -> None:
    second = curves({10.0: 0.2, 20.0: 0.3, 30.0: 0.33}, {4.0: 0.2, 8.0: 0.3, 12.0: 0.3}, seed=2)
    row = seconds_to_accuracy(pl.concat([FIRST, second]), "model").row(0, named=True)
    assert row["seeds"] == 2
    assert (row["gosgd_s"], row["edgegossip_s"]) == (20, 10)


def test_one_seed_that_does_not_get_there_leaves_no_mean() -> None:
    never = curves({10.0: 0.9, 20.0: 0.9, 30.0: 0.9}, {4.0: 0.8, 8.0: 0.8, 12.0: 0.8}, seed=2)
    row = seconds_to_accuracy(pl.concat([FIRST, never]), "model").row(0, named=True)
    assert row["gosgd_s"] == 15
    assert row["edgegossip_s"] is None
    assert row["times_as_fast"] is None


def test_cases_are_told_apart() -> None:
    other = FIRST.filter(method="edgegossip").with_columns(
        technique=pl.lit("u"), at_s=2 * pl.col("at_s")
    )
    found = seconds_to_accuracy(pl.concat([FIRST, other]), "technique")
    assert found.select("technique", "edgegossip_s").rows() == [("t", 12), ("u", 24)]


def test_ranking_takes_longer_than_gossip_and_never_gets_there_by_the_letter() -> None:
    found = recordings.load("edgegossip", "strategies")
    assert found is not None
    seconds = {
        (strategy, order): reached
        for _, strategy, order, *reached in seconds_until(found.frame, (95, 97, 98)).rows()
    }
    gossip, ranking = (
        np.array(seconds[each]) for each in ((None, None), ("accuracy_aware", "shuffled"))
    )
    assert (gossip < ranking).all()
    assert seconds["accuracy_aware", "ranked"] == [None] * 3


def test_seconds_until_an_accuracy_are_means_of_seeds_that_all_get_there() -> None:
    second = curves({10.0: 0.88}, {4.0: 0.4}, seed=2)
    plain, ours = seconds_until(pl.concat([FIRST, second]), (88, 87)).rows()
    assert plain == ("gosgd", None, None, 15.0, 15.0)
    assert ours == ("edgegossip", "s", "o", None, None)
