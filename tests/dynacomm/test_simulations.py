"""Experiments on the simulated network, at the smallest scale."""

from __future__ import annotations

import altair as alt
import polars as pl
import pytest

from workbench import figures
from workbench.clusters import Schedule
from workbench.dynacomm import charts, mobile_trace, simulated_testbed, simulations
from workbench.dynacomm.replanning import WITHIN_S
from workbench.dynacomm.testbed import paper_testbed
from workbench.names import UnknownNameError

SIZES = simulations.SCALES["smoke"]


@pytest.fixture(scope="module")
def replanned() -> pl.DataFrame:
    return simulations.replanning("smoke")


@pytest.fixture(scope="module")
def scaled() -> pl.DataFrame:
    return simulations.fig11_simulated("smoke")


def test_every_iteration_of_every_policy_has_a_row(replanned: pl.DataFrame) -> None:
    assert len(replanned) == 3 * len(simulations.POLICIES) * SIZES.iterations
    for _, run in replanned.group_by("scenario", "policy", maintain_order=True):
        assert run["iteration"].to_list() == list(range(1, SIZES.iterations + 1))
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
    gains = simulations.replanning_gains(replanned)
    assert len(gains) == 3 * len(simulations.POLICIES)
    knowing = gains.filter(policy="clairvoyant").select("scenario", knowing_s="total_s")
    slack_s = 2 * WITHIN_S * SIZES.iterations
    for row in gains.join(knowing, on="scenario").iter_rows(named=True):
        assert row["knowing_s"] <= row["total_s"] + slack_s, row
    assert gains.filter(policy="clairvoyant")["gap_percent"].to_list() == [0, 0, 0]
    assert gains.filter(policy="static")["gain_percent"].to_list() == [0, 0, 0]


def test_planning_anew_pays_when_the_bandwidth_halves_for_good(replanned: pl.DataFrame) -> None:
    step = simulations.replanning_gains(replanned).filter(scenario="step")
    gain = dict(step.select("policy", "gain_percent").iter_rows())
    assert gain["per_iteration"] > gain["per_epoch"] > 1


def test_gains_by_hand() -> None:
    frame = pl.DataFrame(
        {
            "model": "m",
            "batch_size": 1,
            "scenario": "step",
            "policy": ["static", "static", "clairvoyant", "clairvoyant"],
            "duration_s": [6.0, 4.0, 5.0, 3.0],
        }
    )
    gains = simulations.replanning_gains(frame)
    assert gains["total_s"].to_list() == [10, 8]
    assert gains["gain_percent"].to_list() == pytest.approx([0, 20])
    assert gains["gap_percent"].to_list() == pytest.approx([25, 0])


def test_the_seed_chooses_where_the_mobile_trace_begins(replanned: pl.DataFrame) -> None:
    other = simulations.replanning("smoke", seed=1)
    again = simulations.replanning("smoke", seed=0)
    assert again.equals(replanned)
    for scenario, same in (("step", True), ("sawtooth", True), ("mobile", False)):
        pair = [frame.filter(scenario=scenario) for frame in (replanned, other)]
        assert pair[0].equals(pair[1]) is same


def test_simulated_speed_ups_are_the_cost_models(scaled: pl.DataFrame) -> None:
    assert len(scaled) == len(SIZES.workers) * len(simulations.PLANNERS_OF_THE_PAPER)
    # Equal workers transfer in step, so the fair share of the cost model is what they get.
    assert scaled["difference_percent"].abs().max() <= 1e-7  # type: ignore[operator]
    ratio = 100 * (scaled["speedup"] / scaled["predicted_speedup"] - 1)
    assert scaled["difference_percent"].to_list() == pytest.approx(ratio.to_list())


def test_interfaces_are_shared_by_more_workers_than_servers() -> None:
    testbed = paper_testbed()
    assert (testbed.workers, testbed.servers) == (8, 4)
    cluster = simulated_testbed.cluster_of(testbed)
    rate_bps = testbed.bandwidth_mbps * 1e6 * testbed.constants.link_efficiency
    assert len(cluster) == 12
    assert {node.uplink.constant for node in cluster.nodes if node.uplink} == {rate_bps}
    assert float(testbed.link.bandwidth_bps) == rate_bps / 2  # type: ignore[arg-type]


def test_the_trace_is_the_seeds_and_can_be_read() -> None:
    assert mobile_trace.TRACE.read_text() == mobile_trace.text()
    schedule = Schedule.from_csv(mobile_trace.TRACE, scale=1e6)
    assert len(schedule.values) == mobile_trace.SECONDS
    low, high = mobile_trace.RANGE_MBPS
    assert low * 1e6 <= min(schedule.values) < max(schedule.values) <= high * 1e6
    assert "synthetic" in mobile_trace.TRACE.name
    assert "**Synthetic.**" in (mobile_trace.TRACE.parent / "README.md").read_text()


def test_figures_fit_both_columns_and_say_that_they_are_simulated(
    replanned: pl.DataFrame, scaled: pl.DataFrame
) -> None:
    drawn: list[alt.FacetChart | alt.LayerChart] = [
        charts.replanning(replanned),
        charts.replanning_gains(simulations.replanning_gains(replanned)),
        charts.fig11_simulated(scaled),
    ]
    for chart in drawn:
        for column in figures.COLUMNS:
            assert "simulated" in figures.svg(chart, column)


@pytest.mark.parametrize("make", [simulations.replanning, simulations.fig11_simulated])
def test_unknown_scale_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownNameError, match="smoke, default, paper"):
        make("full")
