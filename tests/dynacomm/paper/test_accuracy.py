"""Fig. 10 at the smallest scale: both plans learn the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.expectations import Stored, resized
from workbench import figures
from workbench.dynacomm.paper import accuracy
from workbench.dynacomm.training import Setup, train
from workbench.reproduction.sweep import ExperimentInterrupted

TIMES = ("at_s", "predicted_s", "difference_percent")


def test_both_plans_learn_the_same_in_less_time(kept: Stored) -> None:
    frame = kept.frames["fig10"]
    ours, theirs = (frame.filter(planner=name) for name in ("dynacomm", "sequential"))
    measured = [column for column in frame.columns if column not in ("planner", *TIMES)]
    assert ours.select(measured).equals(theirs.select(measured))
    assert (ours["at_s"] < theirs["at_s"]).all()


def test_accuracies_that_differ_at_one_epoch_would_be_noticed(kept: Stored) -> None:
    assert kept.value("fig10.accuracy") == 0
    other = pl.when(pl.col("planner") == "dynacomm").then(pl.col("top5") - 0.02)
    changed = kept.frames["fig10"].with_columns(top5=other.otherwise(pl.col("top5")))
    assert kept.value("fig10.accuracy", fig10=changed) == pytest.approx(2)


def test_training_of_equal_workers_ends_when_the_cost_model_says() -> None:
    frame = resized(accuracy.FIG10, samples=66).frame("smoke", epochs=2)
    assert frame["epoch"].to_list() == [1, 2, 1, 2]
    assert frame["at_s"].to_list() == pytest.approx(frame["predicted_s"].to_list(), rel=1e-9)
    assert frame["difference_percent"].to_list() == pytest.approx([0.0] * 4, abs=1e-7)
    drawn = figures.svg(accuracy.draw_accuracies(frame), "double")
    assert "simulation and cost model agree within 0.01 %" in drawn
    assert "2 workers, 2 servers, 50 Mbit/s (simulated)" in drawn


def test_ctrl_c_leaves_the_epochs_that_were_trained(
    kept: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[Any] = []

    def interrupted(setup: Setup, planner: str, **options: Any) -> Any:
        if planner == "sequential":
            first.append(train(setup, planner, **options))
            return first[0]
        run = replace(first[0].run, ended="interrupted")
        return replace(first[0], run=run, epochs=first[0].epochs.head(0))

    monkeypatch.setattr("workbench.dynacomm.training.train", interrupted)
    with pytest.raises(ExperimentInterrupted, match="1 finished row is in `frame`") as raised:
        accuracy.FIG10.frame("smoke")
    assert raised.value.frame.equals(kept.frames["fig10"].filter(planner="sequential"))
