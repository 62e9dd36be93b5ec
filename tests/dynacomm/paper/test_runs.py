"""Figs. 10 and 11 by simulation, planning again, and Table II, at the smallest scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.expectations import Stored, assert_tells_every_step, resized
from workbench import figures
from workbench.clusters import Schedule
from workbench.dynacomm.paper import runs
from workbench.dynacomm.paper.testbed import MODELS, paper_testbed, variant
from workbench.dynacomm.planners import PLANNERS, dynacomm
from workbench.dynacomm.profiler import Line, Profile
from workbench.dynacomm.training import Setup, train
from workbench.reproduction.figure import Figure
from workbench.reproduction.sweep import ExperimentInterrupted
from workbench.runtime import Run, simulate

TIMES = ("at_s", "predicted_s", "difference_percent")
SIZES = runs.REPLANNING.sizes
ITERATIONS = SIZES["iterations"].smoke
COUNTS = runs.FIG11_SIMULATED.sizes["counts"].smoke


@pytest.mark.parametrize(
    "figure",
    [
        resized(runs.FIG10, samples=16),
        runs.TABLE2,
        resized(runs.REPLANNING, iterations=3),
        resized(runs.FIG11_SIMULATED, counts=(1, 2)),
    ],
    ids=lambda figure: figure.id,
)
def test_long_experiment_tells_every_step(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_tells_every_step(lambda: figure.frame("smoke"), monkeypatch)


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
    frame = resized(runs.FIG10, samples=66).frame("smoke", epochs=2)
    assert frame["epoch"].to_list() == [1, 2, 1, 2]
    assert frame["at_s"].to_list() == pytest.approx(frame["predicted_s"].to_list(), rel=1e-9)
    assert frame["difference_percent"].to_list() == pytest.approx([0.0] * 4, abs=1e-7)
    drawn = figures.svg(runs.draw_accuracies(frame), "double")
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
        runs.FIG10.frame("smoke")
    assert raised.value.frame.equals(kept.frames["fig10"].filter(planner="sequential"))


@pytest.mark.parametrize(
    ("figure", "rows"), [(runs.REPLANNING, ITERATIONS), (runs.FIG11_SIMULATED, 1)]
)
def test_interrupted_simulation_is_no_row(
    figure: Figure, rows: int, kept: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def third_is_cut_off(*args: Any, **options: Any) -> Run:
        nonlocal calls
        calls += 1
        run = simulate(*args, **options)
        return run if calls < 3 else replace(run, ended="interrupted")

    monkeypatch.setattr(runs, "simulate", third_is_cut_off)
    with pytest.raises(ExperimentInterrupted) as raised:
        figure.frame("smoke")
    assert raised.value.frame.equals(kept.frames[figure.id].head(2 * rows))


def test_simulated_speed_ups_of_equal_workers_are_the_cost_models(kept: Stored) -> None:
    frame = kept.frames["fig11_simulated"]
    equal = frame.filter(case="equal")
    assert len(equal) == len(COUNTS) * len(runs.PLANNERS_OF_THE_PAPER)
    # Equal workers transfer in step, so the fair share of the cost model is what they get.
    assert equal["difference_percent"].abs().max() <= 1e-7  # type: ignore[operator]
    for row in equal.iter_rows(named=True):
        testbed = variant(row["workers"], row["bandwidth_mbps"])
        plan = PLANNERS[row["planner"]](testbed.costs(row["model"], row["batch_size"]))
        predicted = testbed.speedup(row["model"], row["batch_size"], plan)
        assert row["predicted_speedup"] == pytest.approx(predicted, rel=1e-12)
    ratio = 100 * (frame["speedup"] / frame["predicted_speedup"] - 1)
    assert frame["difference_percent"].to_list() == pytest.approx(ratio.to_list())


def test_model_bounds_unequal_workers_who_get_more_than_their_share(kept: Stored) -> None:
    frame, most = kept.frames["fig11_simulated"], max(COUNTS)
    assert most > paper_testbed().servers  # so that they share the servers' interfaces
    unequal = frame.filter(case="unequal")
    assert set(unequal.filter(workers=most)["slowest"]) == {runs.SLOWEST}
    assert unequal["difference_percent"].min() >= -1e-7  # type: ignore[operator]
    gained = dict(unequal.filter(workers=most).select("planner", "difference_percent").iter_rows())
    assert gained["sequential"] > 1
    alone = unequal.filter(workers=1).drop("case")
    assert alone.equals(frame.filter(case="equal", workers=1).drop("case"))


@pytest.mark.parametrize("slowest", [0, -1, 1.5, float("nan")])
def test_impossible_speed_is_refused(slowest: float) -> None:
    with pytest.raises(ValueError, match="a speed above 0 and at most 1"):
        runs.FIG11_SIMULATED.frame("smoke", slowest=slowest)


def test_every_iteration_of_every_policy_has_a_row(kept: Stored) -> None:
    frame = kept.frames["replanning"]
    assert len(frame) == 3 * len(runs.POLICIES) * ITERATIONS
    for _, run in frame.group_by("scenario", "policy", maintain_order=True):
        assert run["iteration"].to_list() == list(range(1, ITERATIONS + 1))
        ends_s = (run["start_s"] + run["duration_s"]).to_list()
        assert run["start_s"].to_list() == pytest.approx([0.0, *ends_s[:-1]])
    full_mbps = float(paper_testbed().link.bandwidth_bps) / 1e6  # type: ignore[arg-type]
    step = frame.filter(scenario="step", policy="static")["bandwidth_mbps"]
    assert (step[0], step[-1]) == pytest.approx((full_mbps, full_mbps / 2))


def test_planning_again_pays_where_the_bandwidth_changes_slowly(kept: Stored) -> None:
    gains = runs.replanning_gains(kept.frames["replanning"])
    paid = {key[:2]: key[2] for key in gains.select("scenario", "policy", "gain_percent").rows()}
    for scenario in ("step", "sawtooth"):
        for policy in ("per_epoch", "per_iteration", "known_bandwidth"):
            assert paid[scenario, policy] > 1, (scenario, policy)
    assert paid["step", "per_iteration"] > paid["step", "per_epoch"]


def test_a_constant_bandwidth_is_planned_for_as_dynacomm_does() -> None:
    job = replace(paper_testbed(), workers=1, servers=1).job("googlenet", 16, 1)
    policy = runs.KnownBandwidth(job, 0.01, Schedule.of([(0, 1e9), (100, 2e9)]))
    for now_s, bandwidth_bps in ((0.0, 1e9), (100.0, 2e9)):
        costs = Profile.before(job, Line(0.01, bandwidth_bps)).costs(job)
        assert policy.step(None, 1, now_s) == (None, dynacomm(costs))


def test_gains_by_hand() -> None:
    frame = pl.DataFrame(
        {
            "model": "m",
            "batch_size": 1,
            "seed": 0,
            "scenario": "step",
            "policy": ["static", "static", "known_bandwidth", "known_bandwidth"],
            "period": [None, None, 1, 1],
            "epoch_iterations": 3,
            "duration_s": [6.0, 4.0, 5.0, 3.0],
        }
    )
    longer = frame.with_columns(pl.col("duration_s") * 3, seed=1)
    gains = runs.replanning_gains(pl.concat([frame, longer]))
    assert gains["total_s"].to_list() == [10, 8, 30, 24]
    assert gains["gain_percent"].to_list() == pytest.approx([0, 20] * 2)
    assert gains["gap_percent"].to_list() == pytest.approx([25, 0] * 2)


def test_seed_chooses_where_the_mobile_trace_begins(kept: Stored) -> None:
    other = runs.REPLANNING.frame("smoke", seed=2)
    for scenario, same in (("step", True), ("sawtooth", True), ("mobile", False)):
        pair = [
            frame.filter(scenario=scenario).drop("seed")
            for frame in (kept.frames["replanning"], other)
        ]
        assert pair[0].equals(pair[1]) is same


@pytest.mark.parametrize(("until_s", "seconds"), [(0.2, 1), (1.0, 1), (1.5, 2), (2.0, 2)])
def test_mobile_trace_lasts_at_least_as_long_as_asked(until_s: float, seconds: int) -> None:
    schedule = runs.mobile(3, until_s)
    assert schedule.starts_s == tuple(map(float, range(seconds)))
    assert schedule.values == runs.mobile(3, 9.0).values[:seconds]


def test_only_what_is_timed_at_full_size_is_missing_at_smoke_scale(kept: Stored) -> None:
    waiting = {claim for claim, answer in kept.answers(kept.frames).items() if answer.not_run}
    speeds = {f"dynacomm.table2.{model}.on" for model in MODELS}
    assert waiting == {"dynacomm.table2.loss", "dynacomm.fig12.exponent", *speeds}


def test_table_2_is_read_from_its_frame(kept: Stored) -> None:
    ratios = dict(zip(MODELS, (1.005, 0.99, 1.025, 1.01), strict=True))
    table = pl.DataFrame({"model": list(ratios), "batch_size": 1, "ratio": list(ratios.values())})
    table = table.with_columns(loss_percent=100 * (1 - 1 / pl.col("ratio")))
    answers = kept.answers({"table2": table})
    worst = max(ratios.values())
    assert answers["dynacomm.table2.loss"].ours == pytest.approx(100 * (1 - 1 / worst))
    assert answers["dynacomm.table2.vgg19.on"].ours == pytest.approx(4.5 / 1.005)


def test_table_2_is_profiled_at_the_papers_batches_at_scale_paper() -> None:
    sizes = runs.TABLE2.sizes["batch_sizes"].paper
    assert set(MODELS) <= set(sizes)
    assert set(sizes.values()) == {8, 32}
