"""Cases: legal, told apart, and what an iteration needs counted as by hand."""

from __future__ import annotations

import math

import pytest

from workbench.dynacomm import PLANNERS
from workbench.reproduction.systems import TITLES
from workbench.three_ways import Case, cases, dynacomm, edgegossip, gossip, hiertrain, olpb
from workbench.three_ways.dlion import hetero_sys_a
from workbench.three_ways.live import LIVE, Setting
from workbench.three_ways.recording import PLACES, one_run
from workbench.three_ways.unpadded import BATCH_SIZE, HALF_BATCH, layer_times, sample_s
from workbench.utils.checks import UserError


def test_every_case_has_a_name_of_its_own_and_places_enough() -> None:
    assert all(name == case.name for name, case in cases().items())
    assert all(2 <= case.nodes <= PLACES for case in cases().values())
    assert {case.arm for case in cases().values()} == {"padded", "unpadded"}


def test_every_system_and_every_planner_at_three_bandwidths_is_there() -> None:
    systems = {case.system for case in cases().values()}
    assert systems == {"gossip", *TITLES}
    compared: dict[str, set[str]] = {}
    for case in cases().values():
        if case.system == "dynacomm" and case.arm == "padded":
            compared.setdefault(case.setting, set()).add(case.choice)
    assert sum(planners == set(PLANNERS) for planners in compared.values()) == 3


EXACT = [
    *(dynacomm.case(planner, 20.0) for planner in PLANNERS),
    *(gossip.case(20.0, 3), gossip.case(5.0, 4, shared=True)),
    *(*edgegossip.cases(), *olpb.cases(), hetero_sys_a("baseline")),
]


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
def test_where_a_cost_model_is_exact_simulations_take_what_it_predicts(case: Case) -> None:
    assert case.simulated.iteration_s == pytest.approx(case.predicted_s, rel=1e-9)


def test_balancing_is_faster_where_platforms_are_unequal() -> None:
    plain, balanced = (edgegossip.case(choice, 20.0) for choice in ("plain", "balanced"))
    assert balanced.predicted_s < 0.6 * plain.predicted_s


def test_scan_runs_again() -> None:
    case = olpb.by_arithmetic("blelloch")
    assert case.run("simulated").iteration_s == case.run("simulated").iteration_s


def test_hiertrain_is_never_simulated_longer_than_it_is_predicted() -> None:
    for mbps in hiertrain.FIG6_MBPS:
        case = hiertrain.case("hiertrain", mbps)
        assert case.simulated.iteration_s < case.predicted_s * (1 + 1e-9)


def test_what_an_iteration_needs_is_counted_as_by_hand() -> None:
    case = dynacomm.case("sequential", 20.0)
    setup = case.setup
    model_bytes = setup.profile.param_bytes
    computing_s, transport_s, overheads_s = case.parts
    assert computing_s == pytest.approx(setup.times.forward_s + setup.times.backward_s)
    assert transport_s == pytest.approx(2 * 8 * model_bytes / 20e6)  # pulled, then pushed
    assert overheads_s == pytest.approx(2 * dynacomm.OVERHEAD_S)
    assert case.naive_s == computing_s + transport_s
    ring = gossip.case(20.0, 3)  # both ways at once
    assert ring.parts.transport_s == pytest.approx(8 * ring.setup.profile.param_bytes / 20e6)


def test_regimes() -> None:
    assert dynacomm.case("sequential", 10.0).regime == "bandwidth"
    assert dynacomm.case("sequential", 1000.0).regime == "computing"
    assert dynacomm.case("layer_by_layer", 50.0, 0.05).regime == "latency"
    assert gossip.case(20.0, 3, shared=True).regime == "contended"


def test_nodes_that_compute_at_once_are_counted() -> None:
    two, three = (dynacomm.case("sequential", 20.0, workers=workers) for workers in (2, 3))
    assert (two.computing_at_once, three.computing_at_once) == (2, 3)
    assert hiertrain.case("all_edge", 3.5).computing_at_once == 1


def test_stored_profile_is_of_the_models_layers() -> None:
    for batch_size in (BATCH_SIZE, HALF_BATCH):
        times = layer_times(batch_size)
        assert times.batch_size == batch_size
        assert times.layers_over_iteration == pytest.approx(1, abs=0.25)
    assert sample_s(HALF_BATCH) == pytest.approx(sample_s(BATCH_SIZE), rel=0.3)
    unpadded = [case for case in cases().values() if case.arm == "unpadded"]
    assert unpadded
    assert all(math.isfinite(case.predicted_s) and case.predicted_s > 0.05 for case in unpadded)


@pytest.mark.parametrize("system", LIVE)
def test_live_cases_follow_the_setting(system: str) -> None:
    slow = Setting(live=system, bandwidth_mbps=2.0, batch_size=32, workers=3).case
    fast = Setting(live=system, bandwidth_mbps=100.0, batch_size=8, workers=3).case
    assert slow.system == fast.system == system
    assert fast.predicted_s < slow.predicted_s


def test_live_settings_that_cannot_be_measured_are_refused() -> None:
    with pytest.raises(UserError, match="ray"):
        Setting(live="ray")
    with pytest.raises(UserError, match="workers=99: must be a whole number from 2 to 5"):
        Setting(workers=99)


def test_a_measured_run_is_a_row(ray_session: object) -> None:
    name = "gossip, lenet5, ring of 3, 20 Mbit/s, 5 ms, an epoch, padded"
    row = one_run(name, repetition=0)
    case = cases()[name]
    assert row["measured_s"] > case.simulated.iteration_s  # never early
    assert row["same_weights"] is True
    assert row["deadlines"] > 0
    assert row["works"] > 0
    assert row["predicted_s"] == case.predicted_s
    assert row["regime"] == "computing"
