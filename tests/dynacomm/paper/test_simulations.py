"""Experiments on the simulated network, at the smallest scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import stored_frames
from workbench.clusters import Schedule
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.paper import replanning, speedup
from workbench.dynacomm.paper.testbed import paper_testbed, variant
from workbench.dynacomm.replanning import mobile_trace
from workbench.dynacomm.replanning.clairvoyant import WITHIN_S
from workbench.reproduction.figure import Figure
from workbench.reproduction.sweep import ExperimentInterrupted
from workbench.runtime import Run, simulate

SIZES = replanning.REPLANNING.sizes
ITERATIONS, EPOCH_ITERATIONS = SIZES["iterations"].smoke, SIZES["epoch_iterations"].smoke
COUNTS = speedup.FIG11_SIMULATED.sizes["counts"].smoke
SEED = 1  # of the notebook


@pytest.fixture(scope="module")
def replanned(smoke: Smoke) -> pl.DataFrame:
    return stored_frames(smoke, "dynacomm")["replanning"]


@pytest.fixture(scope="module")
def scaled(smoke: Smoke) -> pl.DataFrame:
    return stored_frames(smoke, "dynacomm")["fig11_simulated"]


def test_every_iteration_of_every_policy_has_a_row(replanned: pl.DataFrame) -> None:
    assert len(replanned) == 3 * len(replanning.POLICIES) * ITERATIONS
    for _, run in replanned.group_by("scenario", "policy", maintain_order=True):
        assert run["iteration"].to_list() == list(range(1, ITERATIONS + 1))
        ends_s = (run["start_s"] + run["duration_s"]).to_list()
        assert run["start_s"].to_list() == pytest.approx([0.0, *ends_s[:-1]])


def test_all_policies_begin_alike_and_the_step_is_seen(replanned: pl.DataFrame) -> None:
    step = replanned.filter(scenario="step")
    first = step.filter(iteration=1)
    assert first["duration_s"].to_list() == pytest.approx([first["duration_s"][0]] * 4)
    full_mbps = float(paper_testbed().link.bandwidth_bps) / 1e6  # type: ignore[arg-type]
    static = step.filter(policy="static")["bandwidth_mbps"]
    assert static[0] == pytest.approx(full_mbps)
    assert static[-1] == pytest.approx(full_mbps / 2)


def test_clairvoyant_is_never_slower(replanned: pl.DataFrame) -> None:
    gains = replanning.replanning_gains(replanned)
    assert len(gains) == 3 * len(replanning.POLICIES)
    knowing = gains.filter(policy="clairvoyant").select("scenario", knowing_s="total_s")
    slack_s = 2 * WITHIN_S * ITERATIONS
    for row in gains.join(knowing, on="scenario").iter_rows(named=True):
        assert row["knowing_s"] <= row["total_s"] + slack_s, row
    assert gains.filter(policy="clairvoyant")["gap_percent"].to_list() == [0, 0, 0]
    assert gains.filter(policy="static")["gain_percent"].to_list() == [0, 0, 0]


def test_planning_again_pays_where_the_bandwidth_changes_slowly(replanned: pl.DataFrame) -> None:
    gains = replanning.replanning_gains(replanned)
    paid = {key[:2]: key[2] for key in gains.select("scenario", "policy", "gain_percent").rows()}
    for scenario in ("step", "sawtooth"):
        for policy in ("per_epoch", "per_iteration", "clairvoyant"):
            assert paid[scenario, policy] > 1, (scenario, policy)
    assert paid["step", "per_iteration"] > paid["step", "per_epoch"]


def test_gains_by_hand() -> None:
    frame = pl.DataFrame(
        {
            "model": "m",
            "batch_size": 1,
            "seed": 0,
            "scenario": "step",
            "policy": ["static", "static", "clairvoyant", "clairvoyant"],
            "planned_every": [None, None, 1, 1],
            "epoch_iterations": 3,
            "duration_s": [6.0, 4.0, 5.0, 3.0],
        }
    )
    longer = frame.with_columns(pl.col("duration_s") * 3, seed=1)
    gains = replanning.replanning_gains(pl.concat([frame, longer]))
    assert gains["total_s"].to_list() == [10, 8, 30, 24]
    assert gains["gain_percent"].to_list() == pytest.approx([0, 20] * 2)
    assert gains["gap_percent"].to_list() == pytest.approx([25, 0] * 2)


@pytest.mark.parametrize(("until_s", "seconds"), [(0.2, 1), (1.0, 1), (1.5, 2), (2.0, 2)])
def test_mobile_trace_lasts_at_least_as_long_as_asked(until_s: float, seconds: int) -> None:
    schedule = replanning.mobile(3, until_s)
    assert schedule.starts_s == tuple(map(float, range(seconds)))
    assert schedule.values == replanning.mobile(3, 9.0).values[:seconds]


def test_training_of_less_than_a_second_can_be_planned_again_too() -> None:
    frame = replanning.REPLANNING.frame("smoke", model="lenet5", batch_size=1)
    assert len(frame) == 3 * len(replanning.POLICIES) * ITERATIONS
    assert set(frame["model"]) == {"lenet5"}


@pytest.mark.parametrize(
    ("module", "figure", "rows"),
    [(replanning, replanning.REPLANNING, ITERATIONS), (speedup, speedup.FIG11_SIMULATED, 1)],
)
def test_interrupted_simulation_is_no_row(
    module: object, figure: Figure, rows: int, smoke: Smoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def third_is_cut_off(*args: Any, **options: Any) -> Run:
        nonlocal calls
        calls += 1
        run = simulate(*args, **options)
        return run if calls < 3 else replace(run, ended="interrupted")

    monkeypatch.setattr(module, "simulate", third_is_cut_off)
    with pytest.raises(ExperimentInterrupted) as raised:
        figure.frame("smoke")
    whole = stored_frames(smoke, "dynacomm")[figure.id]
    assert raised.value.frame.equals(whole.head(2 * rows))


def test_seed_chooses_where_the_mobile_trace_begins(replanned: pl.DataFrame) -> None:
    other, again = (replanning.REPLANNING.frame("smoke", seed=seed) for seed in (SEED + 1, SEED))
    assert again.equals(replanned)
    for scenario, same in (("step", True), ("sawtooth", True), ("mobile", False)):
        pair = [frame.filter(scenario=scenario).drop("seed") for frame in (replanned, other)]
        assert pair[0].equals(pair[1]) is same


def test_simulated_speed_ups_of_equal_workers_are_the_cost_models(scaled: pl.DataFrame) -> None:
    equal = scaled.filter(case="equal")
    assert len(equal) == len(COUNTS) * len(speedup.PLANNERS_OF_THE_PAPER)
    assert set(equal["slowest"]) == {1.0}
    # Equal workers transfer in step, so the fair share of the cost model is what they get.
    assert equal["difference_percent"].abs().max() <= 1e-7  # type: ignore[operator]
    for row in equal.iter_rows(named=True):
        testbed = variant(row["workers"], row["bandwidth_mbps"])
        plan = PLANNERS[row["planner"]](testbed.costs(row["model"], row["batch_size"]))
        predicted = testbed.speedup(row["model"], row["batch_size"], plan)
        assert row["predicted_speedup"] == pytest.approx(predicted, rel=1e-12)
    ratio = 100 * (scaled["speedup"] / scaled["predicted_speedup"] - 1)
    assert scaled["difference_percent"].to_list() == pytest.approx(ratio.to_list())


def test_model_bounds_unequal_workers_who_get_more_than_their_share(scaled: pl.DataFrame) -> None:
    testbed, most = paper_testbed(), max(COUNTS)
    assert most > testbed.servers  # so that they share the servers' interfaces
    unequal = scaled.filter(case="unequal")
    assert set(unequal.filter(workers=most)["slowest"]) == {speedup.SLOWEST}
    assert unequal["difference_percent"].min() >= -1e-7  # type: ignore[operator]
    gained = dict(unequal.filter(workers=most).select("planner", "difference_percent").iter_rows())
    assert gained["sequential"] > 1
    alone = unequal.filter(workers=1).drop("case")
    assert alone.equals(scaled.filter(case="equal", workers=1).drop("case"))


@pytest.mark.parametrize("slowest", [0, -1, 1.5, float("nan")])
def test_impossible_speed_is_refused(slowest: float) -> None:
    with pytest.raises(ValueError, match="a speed above 0 and at most 1"):
        speedup.FIG11_SIMULATED.frame("smoke", slowest=slowest)


def test_trace_is_the_seeds_and_can_be_read() -> None:
    assert mobile_trace.TRACE.read_text() == mobile_trace.text()
    schedule = Schedule.from_csv(mobile_trace.TRACE, scale=1e6)
    assert len(schedule.values) == mobile_trace.SECONDS
    low, high = mobile_trace.RANGE_MBPS
    assert low * 1e6 <= min(schedule.values) < max(schedule.values) <= high * 1e6
    assert "synthetic" in mobile_trace.TRACE.name
    assert "**Synthetic.**" in (mobile_trace.TRACE.parent / "README.md").read_text()
