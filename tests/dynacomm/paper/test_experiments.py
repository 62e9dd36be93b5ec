"""Frames behind the figures: what they hold, and what must be so in each."""

import importlib
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import assert_tells_every_step, resized, stored_frames
from workbench import figures
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.costs.plan import Plan
from workbench.dynacomm.paper import (
    accuracy,
    planning_time,
    profiling,
    replanning,
    saved_time,
    speedup,
)
from workbench.dynacomm.paper.testbed import MODELS
from workbench.dynacomm.paper.titles import PARTS
from workbench.dynacomm.training import Setup, train
from workbench.reproduction.figure import Figure
from workbench.reproduction.sweep import ExperimentInterrupted

TIMED = ("at_s", "predicted_s", "difference_percent")
Frames = dict[str, pl.DataFrame]


@pytest.fixture(scope="module")
def stored(smoke: Smoke) -> Frames:
    return stored_frames(smoke, "dynacomm")


@pytest.mark.parametrize("figure", ["fig5", "fig6", "fig7", "fig8"])
def test_parts_add_up_and_dynacomm_is_fastest(figure: str, stored: Frames) -> None:
    frame = stored[figure]
    assert len(frame) == len(MODELS) * len(PLANNERS)
    parts = pl.sum_horizontal(*PARTS)
    assert frame.filter((parts - pl.col("total_s")).abs() > 1e-9).is_empty()
    sequential, ours = (frame.filter(planner=name) for name in ("sequential", "dynacomm"))
    assert sequential["normalised"].to_list() == [1.0] * len(MODELS)
    assert sequential["overlap_s"].to_list() == pytest.approx([0.0] * len(MODELS))
    fastest = frame.group_by("model", maintain_order=True).agg(pl.col("total_s").min())["total_s"]
    assert ours["total_s"].to_list() == pytest.approx(fastest.to_list(), rel=1e-12)


def test_iterations_are_both_directions_together(stored: Frames) -> None:
    for batch_size, directions in ((32, ("fig5", "fig6")), (16, ("fig7", "fig8"))):
        whole = stored["iterations"].filter(batch_size=batch_size)
        whole = whole.select("model", "planner", "total_s")
        halves = pl.concat([stored[one] for one in directions])
        summed = halves.group_by("model", "planner", maintain_order=True).agg(
            pl.col("total_s").sum()
        )
        joined = whole.join(summed, on=["model", "planner"])
        assert len(joined) == len(whole) == len(summed)
        assert joined["total_s"].to_list() == pytest.approx(joined["total_s_right"].to_list())


def test_more_bandwidth_never_slows_an_iteration(stored: Frames) -> None:
    frame = stored["fig9b"].sort("bandwidth_mbps")
    for _, part in frame.group_by("planner"):
        assert (part["total_s"].diff().drop_nulls() <= 1e-12).all()


def test_speed_ups_grow_but_never_beyond_the_workers(stored: Frames) -> None:
    frame = stored["fig11"]
    assert frame.filter(pl.col("speedup") > pl.col("workers")).is_empty()
    ours = frame.filter(pl.col("planner") == "dynacomm").sort("workers")["speedup"]
    assert (ours.diff().drop_nulls() > 0).all()


def test_the_benchmark_of_planners_runs_to_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = importlib.import_module("benchmarks.dynacomm_planners")
    monkeypatch.setattr(benchmark, "SIZES", (4, 8))
    monkeypatch.setattr(benchmark, "median_ms", lambda *_, **__: 1.0)
    benchmark.main()
    assert "slope from 200 layers on, forward, dynacomm: 0.00" in capsys.readouterr().out


def test_random_costs_repeat_with_the_seed(stored: Frames) -> None:
    again = planning_time.FIG12.frame("smoke", seed=1)
    assert again.drop("median_ms").equals(stored["fig12"].drop("median_ms"))


@pytest.mark.parametrize(
    "figure",
    [
        resized(accuracy.FIG10, samples=16),
        planning_time.FIG12,
        planning_time.TABLE1,
        profiling.TABLE2,
        resized(replanning.REPLANNING, iterations=3),
        resized(speedup.FIG11_SIMULATED, counts=(1, 2)),
    ],
    ids=lambda figure: figure.id,
)
def test_long_experiment_tells_every_step(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_tells_every_step(lambda: figure.frame("smoke"), monkeypatch)


def test_ctrl_c_leaves_the_epochs_that_were_trained(
    stored: Frames, monkeypatch: pytest.MonkeyPatch
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
    assert raised.value.frame.equals(stored["fig10"].filter(planner="sequential"))


def test_training_of_equal_workers_ends_when_the_cost_model_says() -> None:
    frame = resized(accuracy.FIG10, samples=66).frame("smoke", epochs=2)
    assert frame["epoch"].to_list() == [1, 2, 1, 2]
    assert frame["at_s"].to_list() == pytest.approx(frame["predicted_s"].to_list(), rel=1e-9)
    assert frame["difference_percent"].to_list() == pytest.approx([0.0] * 4, abs=1e-7)
    drawn = figures.svg(accuracy.draw_learning(frame), "double")
    assert "simulation and cost model agree within 0.01 %" in drawn


def test_both_plans_learn_the_same_in_less_time(stored: Frames) -> None:
    frame = stored["fig10"]
    ours, theirs = (frame.filter(planner=name) for name in ("dynacomm", "sequential"))
    measured = [column for column in frame.columns if column not in ("planner", *TIMED)]
    assert ours.select(measured).equals(theirs.select(measured))
    assert (ours["at_s"] < theirs["at_s"]).all()


def test_own_planner_stands_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNERS, "halves", lambda costs: Plan((costs.layers // 2,), ()))
    assert "halves" in figures.svg(saved_time.draw_direction(saved_time.FIG5.frame()))
    assert "halves" in figures.svg(speedup.draw_speedups(speedup.FIG11.frame()))
