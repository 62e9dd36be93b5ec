"""Trainings with seeds, means that say what is missing, seconds until an accuracy, by hand."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import polars as pl
import pytest

from workbench.reproduction.claims import Answer
from workbench.reproduction.trainings import (
    Mean,
    Means,
    MissingTrainingsError,
    learnt_data,
    mean_of_all,
    of_whole_seeds,
    seconds_to,
    train_all,
    with_seeds,
)
from workbench.training import TrainingError


class Case(NamedTuple):
    system: str = "a"
    seed: int = 1


def test_each_distinct_case_with_each_seed() -> None:
    found = with_seeds([Case("a"), Case("b"), Case("a")], (3, 4))
    assert found == [Case("a", 3), Case("b", 3), Case("a", 4), Case("b", 4)]


def learn(*, case: Case) -> list[dict[str, float]]:
    CALLS.append(case)
    if case.system == "b":
        ended: Any = SimpleNamespace(run=None)
        raise TrainingError("training diverged", ended)
    return [{"at_s": 1.0, "top1": 0.5}, {"at_s": 2.0, "top1": 0.6}]


CALLS: list[Case] = []


def test_a_training_that_fails_is_a_row_and_none_runs_twice() -> None:
    schema = {"system": pl.String, "at_s": pl.Float64, "top1": pl.Float64, "reason": pl.String}
    points = [{"system": name, "case": Case(name)} for name in ("a", "b")]
    frames = [
        train_all("Two", learn, points, schema, scale="smoke", labels=("system",)) for _ in range(2)
    ]
    rows = [("a", 1.0, 0.5, None), ("a", 2.0, 0.6, None), ("b", None, None, "training diverged")]
    assert frames[0].rows() == frames[1].rows() == rows
    assert len(CALLS) == 2


def test_means_and_their_errors() -> None:
    assert Mean.of([0.5]) == (0.5, None, 1)
    mean = Mean.of([0.0, 20.0, 40.0])
    assert mean.value == 20
    assert mean.error == pytest.approx(20 / 3**0.5)
    assert mean.spread() == "± 11.5 points (3 seeds)"
    assert Mean.of([1.0]).spread("x") == "one seed"


def test_means_by_a_column() -> None:
    rows = pl.DataFrame({"system": ["b", "a", "a"], "seed": [1, 1, 2], "top1": [0.6, 0.2, 0.4]})
    means = Means.by(rows, "system")
    assert list(means.items()) == [("a", pytest.approx(0.3)), ("b", 0.6)]
    assert means.percents() == "30.0/60.0 % of a/b"
    assert means.percents("b") == "60.0 % of b"
    with pytest.raises(MissingTrainingsError):
        means["c"]


def curve(top1: Mapping[float, float | None], seed: int = 1) -> pl.DataFrame:
    rows = [{"seed": seed, "at_s": at_s, "top1": value} for at_s, value in top1.items()]
    return pl.DataFrame(rows, {"seed": pl.Int64, "at_s": pl.Float64, "top1": pl.Float64})


@pytest.mark.parametrize(
    ("target", "at_s"),
    [(0.0, 0.0), (0.1, 5.0), (0.2, 10.0), (0.4, 15.0), (0.6, 20.0), (0.61, None)],
)
def test_seconds_between_rows_are_interpolated(target: float, at_s: float | None) -> None:
    frame = curve({20.0: 0.6, 5.0: None, 10.0: 0.2, 30.0: 0.5})
    assert seconds_to(frame, target) == {1: at_s if at_s is None else pytest.approx(at_s)}


def test_seconds_of_each_seed_and_their_mean() -> None:
    other = curve({10.0: 0.4, 20.0: 0.4}, seed=2)
    frame = pl.concat([curve({10.0: 0.2, 20.0: 0.6}), other])
    assert seconds_to(frame, 0.4) == {1: pytest.approx(15), 2: pytest.approx(10)}
    assert mean_of_all(seconds_to(frame, 0.4).values()) == pytest.approx(12.5)
    assert seconds_to(frame, 0.5)[2] is None
    assert mean_of_all(seconds_to(frame, 0.5).values()) is None
    assert mean_of_all([]) is None
    assert seconds_to(curve({10.0: 0.0}), 0.0) == {1: 10}


def test_what_was_learnt_from() -> None:
    frame = pl.DataFrame({"train_samples": [1000, 50, 50], "dataset": ["a", "b", "b"]})
    assert learnt_data(frame) == "1,000 samples of a and 50 samples of b"


def rows(*seeds: int, failed: int | None = None) -> pl.DataFrame:
    reasons = ["diverged" if seed == failed else None for seed in seeds]
    schema = {"seed": pl.Int64, "reason": pl.String}
    return pl.DataFrame({"seed": seeds, "reason": reasons}, schema)


@of_whole_seeds(2)
def seeds_used(name: str, *frames: pl.DataFrame, missing: bool = False) -> Answer:
    if missing:
        Means()["nobody"]
    assert name == "first"
    return Answer(float(sum(len(frame) for frame in frames)), "rows")


def test_answers_are_by_the_seeds_in_which_every_training_ended_well() -> None:
    whole = seeds_used("first", rows(1, 2, 3), rows(1, 2, 3))
    assert whole == Answer(6.0, "rows")
    part = seeds_used("first", rows(1, 2, 3, failed=3), rows(1, 2, 4))
    assert part is not None
    assert part.ours == 4
    assert part.detail == "rows, without seed 3, 4, where trainings are missing"
    few = seeds_used("first", rows(1, 2, failed=2))
    assert few is not None
    assert few.not_run == "takes 2 seeds; here without seed 2, where trainings are missing"
    assert seeds_used("first", rows(1, 2), missing=True) is None
