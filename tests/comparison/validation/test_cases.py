"""Cases: named apart, predicted as they are simulated, and what an iteration needs by hand."""

from __future__ import annotations

import pytest

from workbench import dynacomm
from workbench.comparison.validation.cases import (
    PLACES,
    cases,
    of_dynacomm,
    of_edgegossip,
    of_gossip,
    of_scan_by_arithmetic,
)
from workbench.comparison.validation.recording import one_run
from workbench.profiles import profile_model
from workbench.reproduction.systems import TITLES
from workbench.utils.checks import UserError


def test_every_system_and_every_planner_at_three_bandwidths_is_there() -> None:
    assert {case.system for case in cases().values()} == {"gossip", *TITLES}
    compared: dict[str, set[str]] = {}
    for case in cases().values():
        if case.system == "dynacomm":
            compared.setdefault(case.setting, set()).add(case.choice)
    assert sum(planners == set(dynacomm.PLANNERS) for planners in compared.values()) == 3


def test_where_a_cost_model_is_exact_simulations_take_what_it_predicts() -> None:
    exact = [
        case
        for case in cases().values()
        if case.system in ("dynacomm", "gossip", "edgegossip", "olpb") or "SYS A, base" in case.name
    ]
    assert len(exact) == 32
    for case in exact:
        expected = pytest.approx(case.predicted_s, rel=1e-9)
        assert case.simulated.iteration_s == expected, case.name
        assert len(case.simulated.cluster) <= PLACES


def test_hiertrain_is_never_simulated_longer_than_it_is_predicted() -> None:
    compared = [case for case in cases().values() if case.choice == "hiertrain"]
    assert len(compared) == 4
    for case in compared:
        assert case.simulated.iteration_s < case.predicted_s * (1 + 1e-9)


def test_balancing_is_faster_where_platforms_are_unequal() -> None:
    plain, balanced = (of_edgegossip(choice, 20.0) for choice in ("plain", "balanced"))
    assert balanced.predicted_s < 0.6 * plain.predicted_s


def test_scan_runs_again() -> None:
    case = of_scan_by_arithmetic("blelloch")
    assert case.run(False).iteration_s == case.run(False).iteration_s


def test_what_an_iteration_needs_is_counted_as_by_hand() -> None:
    case, profile = of_dynacomm("sequential", 20.0), profile_model("alexnet_small")
    transport_s = 2 * 8 * profile.param_bytes / 20e6  # pulled, then pushed
    assert case.parts_s["bandwidth"] == pytest.approx(transport_s)
    assert case.parts_s["latency"] == pytest.approx(2 * 0.01)
    assert case.predicted_s == pytest.approx(sum(case.parts_s.values()))  # one after the other
    assert case.naive_s == case.parts_s["computing"] + case.parts_s["bandwidth"]
    ring = of_gossip(20.0, 3)  # both ways at once
    lenet = profile_model("lenet5")
    assert ring.parts_s["bandwidth"] == pytest.approx(8 * lenet.param_bytes / 20e6)


def test_regimes() -> None:
    assert of_dynacomm("sequential", 10.0).regime == "bandwidth"
    assert of_dynacomm("sequential", 1000.0).regime == "computing"
    assert of_dynacomm("layer_by_layer", 50.0, 0.05).regime == "latency"
    assert of_gossip(20.0, 3, shared=True).regime == "contended"


def test_more_workers_than_one_machine_measures_are_refused() -> None:
    with pytest.raises(UserError, match="workers is 99; it must be from 1 to 5"):
        of_dynacomm("dynacomm", 20.0, workers=99)


def test_a_measured_run_is_a_row(ray_session: object) -> None:
    name = "gossip, lenet5, ring of 3, 20 Mbit/s, 5 ms, an epoch"
    row, case = one_run(name, repetition=0), cases()[name]
    assert row["measured_s"] > case.simulated.iteration_s  # never early
    assert row["same_weights"] is True
    assert min(row["deadlines"], row["works"]) > 0
    assert (row["predicted_s"], row["regime"], row["nodes"]) == (case.predicted_s, "computing", 3)
