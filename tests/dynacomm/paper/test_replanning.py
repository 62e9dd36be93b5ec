"""Planning again, at the smallest scale and by hand."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.expectations import Stored
from workbench.clusters import Schedule
from workbench.dynacomm.paper import replanning
from workbench.dynacomm.paper.testbed import paper_testbed
from workbench.dynacomm.planners import dynacomm
from workbench.dynacomm.profiler import Line, Profile

ITERATIONS = replanning.REPLANNING.sizes["iterations"].smoke


def test_every_iteration_of_every_policy_has_a_row(kept: Stored) -> None:
    frame = kept.frames["replanning"]
    assert len(frame) == 3 * len(replanning.POLICIES) * ITERATIONS
    for _, run in frame.group_by("scenario", "policy", maintain_order=True):
        assert run["iteration"].to_list() == list(range(1, ITERATIONS + 1))
        ends_s = (run["start_s"] + run["duration_s"]).to_list()
        assert run["start_s"].to_list() == pytest.approx([0.0, *ends_s[:-1]])
    full_mbps = float(paper_testbed().link.bandwidth_bps) / 1e6  # type: ignore[arg-type]
    step = frame.filter(scenario="step", policy="static")["bandwidth_mbps"]
    assert (step[0], step[-1]) == pytest.approx((full_mbps, full_mbps / 2))


def test_planning_again_pays_where_the_bandwidth_changes_slowly(kept: Stored) -> None:
    gains = replanning.replanning_gains(kept.frames["replanning"])
    paid = {key[:2]: key[2] for key in gains.select("scenario", "policy", "gain_percent").rows()}
    for scenario in ("step", "sawtooth"):
        for policy in ("per_epoch", "per_iteration", "known_bandwidth"):
            assert paid[scenario, policy] > 1, (scenario, policy)
    assert paid["step", "per_iteration"] > paid["step", "per_epoch"]


def test_a_constant_bandwidth_is_planned_for_as_dynacomm_does() -> None:
    job = replace(paper_testbed(), workers=1, servers=1).job("googlenet", 16, 1)
    policy = replanning.KnownBandwidth(job, 0.01, Schedule.of([(0, 1e9), (100, 2e9)]))
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
    gains = replanning.replanning_gains(pl.concat([frame, longer]))
    assert gains["total_s"].to_list() == [10, 8, 30, 24]
    assert gains["gain_percent"].to_list() == pytest.approx([0, 20] * 2)
    assert gains["gap_percent"].to_list() == pytest.approx([25, 0] * 2)


def test_seed_chooses_where_the_mobile_trace_begins(kept: Stored) -> None:
    other = replanning.REPLANNING.frame("smoke", seed=2)
    for scenario, same in (("step", True), ("sawtooth", True), ("mobile", False)):
        pair = [
            frame.filter(scenario=scenario).drop("seed")
            for frame in (kept.frames["replanning"], other)
        ]
        assert pair[0].equals(pair[1]) is same


@pytest.mark.parametrize(("until_s", "seconds"), [(0.2, 1), (1.0, 1), (1.5, 2), (2.0, 2)])
def test_mobile_trace_lasts_at_least_as_long_as_asked(until_s: float, seconds: int) -> None:
    schedule = replanning.mobile(3, until_s)
    assert schedule.starts_s == tuple(map(float, range(seconds)))
    assert schedule.values == replanning.mobile(3, 9.0).values[:seconds]
