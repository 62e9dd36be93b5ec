"""Problems validate themselves; problems from profiles."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.hiertrain.strategies import given_of, problems
from tests.refusals import refusals
from workbench.hiertrain import (
    PLANNERS,
    TIERS,
    Problem,
    iteration,
    problem_of,
    problem_of_times,
    through_edge,
)
from workbench.profiles import LayerTimes, profile_model
from workbench.utils.checks import UnknownNameError

NAN, INFINITE = float("nan"), float("inf")
BANDWIDTHS = {("device", "edge"): 5e6, ("edge", "cloud"): 3e6, ("device", "cloud"): 2e6}


def good() -> dict[str, Any]:
    return {
        "layer_s": {tier: [[1, 2], [3, 4]] for tier in TIERS},
        "update_s": {tier: [1, 2] for tier in TIERS},
        "param_bytes": [10, 20],
        "output_bytes": [5, 6],
        "sample_bytes": 7,
        "bandwidth_bps": dict(BANDWIDTHS),
        "batch": 4,
    }


def test_a_pair_may_be_written_in_either_order() -> None:
    swapped = {(b, a): bps for (a, b), bps in BANDWIDTHS.items()}
    problem = Problem(**(good() | {"bandwidth_bps": swapped}))
    assert dict(problem.bandwidth_bps) == BANDWIDTHS
    assert problem.seconds(5e6 / 8, "device", "edge") == 1
    assert problem.seconds(5e6 / 8, "edge", "device") == 1
    assert problem.seconds(5e6 / 8, "edge", "edge") == 0
    with pytest.raises(ValueError, match="no link between 'edge' and 'fog'"):
        problem.seconds(1, "edge", "fog")


def but(name: str, tier: str, value: object) -> dict[str, Any]:
    return {**good()[name], tier: value}


def linked(*values: object) -> list[dict[Any, object]]:
    return [BANDWIDTHS | {("edge", "cloud"): value} for value in values]


test_problem_refused = refusals(
    Problem,
    good(),
    {
        "layer_s": {
            "layer_s takes numbers for each of device, edge, cloud": [{"edge": [[1, 2]]}],
            "layer_s of edge takes a row of 2 numbers per layer": [
                but("layer_s", "edge", [1, 2]),
                but("layer_s", "edge", [[1, 2, 3]] * 2),
            ],
            "layer_s of edge of layer 2 is nan": [but("layer_s", "edge", [[1, 2], [NAN, 1]])],
            "the lengths differ": [but("layer_s", "edge", [[1, 2]])],
        },
        "update_s": {
            "update_s takes numbers for each of .*fog": [but("update_s", "fog", [1, 2])],
            "the lengths differ": [but("update_s", "edge", [1])],
            "update_s of edge of layer 2 is -1": [but("update_s", "edge", [1, -1])],
        },
        "param_bytes": {
            "the lengths differ": [[1]],
            "param_bytes takes one number per layer, at least one": [[]],
            "param_bytes takes numbers": [["1", "2"], [True, False], np.array([1j, 2])],
        },
        "output_bytes": {
            "output_bytes of layer 2 is inf": [[1, INFINITE]],
            "output_bytes of layer 1 is nan": [[None, 1]],
        },
        "sample_bytes": {"sample_bytes is": [[1, 2], 1j, -1]},
        "bandwidth_bps": {
            "bandwidth_bps between edge and cloud is .*; it must be positive": linked(
                0, -5, NAN, INFINITE
            ),
            "between edge and cloud is .*; give a number": linked("5 Mbps", None, True),
            r"bandwidth_bps is 5000000.0; give one for each pair.*'edge'\)": [5e6],
            r"names '.*', which is no pair of tiers; give \{\('device', 'edge'\): 5e6": [
                BANDWIDTHS | {"device-edge": 1},
                {"ab": 1},
            ],
            "missing between edge and cloud; device and": [{("device", "edge"): 1}],
            "twice; it is the same both": [BANDWIDTHS | {("cloud", "edge"): 1}],
            "no link between 'fog' and 'edge'": [BANDWIDTHS | {("fog", "edge"): 1}],
        },
        "overhead_s": {"their sum is not": [1.7e308]},
    },
)


def test_problem_cannot_be_changed_afterwards() -> None:
    given_s = np.array([[1.0, 2.0], [3.0, 4.0]])
    problem = Problem(**(good() | {"layer_s": but("layer_s", "edge", given_s)}))
    given_s[0, 0] = 100
    assert problem.layer_s["edge"][0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        problem.param_bytes[0] = 1
    with pytest.raises(TypeError):
        problem.bandwidth_bps["device", "edge"] = 1  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        problem.span_s[0, 0, 0, 1] = 1


@given(problem=problems(max_layers=4, max_batch=5))
def test_problem_survives_pickling(problem: Problem) -> None:
    copy = pickle.loads(pickle.dumps(problem))
    assert given_of(copy) == given_of(problem)


SPEEDS = {"device": 2e9, "edge": 8e9, "cloud": 5e11}
LINKS: dict[str, Any] = {"device_edge_bps": 5e6, "edge_cloud_bps": 3e6, "batch": 32}


def test_problem_from_flops() -> None:
    profile = profile_model("lenet5")
    problem = problem_of(profile, flops_per_s=SPEEDS, **LINKS)
    assert problem.layers == len(profile)
    assert problem.batch == 32
    assert problem.sample_bytes == 4 * 28 * 28
    forward_s = profile.table["forward_flops"].to_numpy() / SPEEDS["edge"]
    assert problem.layer_s["edge"][:, 0] == pytest.approx(forward_s)
    backward_s = profile.table["backward_flops"].to_numpy() / SPEEDS["edge"]
    assert problem.layer_s["edge"][:, 1] == pytest.approx(backward_s)
    updates_s = profile.table["param_bytes"].to_numpy() / 2 / SPEEDS["cloud"]
    assert problem.update_s["cloud"] == pytest.approx(updates_s)
    assert problem.param_bytes.sum() == profile.param_bytes
    assert problem.bandwidth_bps["device", "cloud"] == 3e6


def test_problem_from_times_takes_seconds_per_sample() -> None:
    profile = profile_model("lenet5")
    times = {
        tier: LayerTimes.from_flops(profile, flops_per_s=speed, batch_size=batch_size)
        for (tier, speed), batch_size in zip(SPEEDS.items(), (1, 8, 64), strict=True)
    }
    ours = problem_of_times(profile, times, **LINKS)
    expected = problem_of(profile, flops_per_s=SPEEDS, **LINKS)
    for tier in TIERS:
        assert ours.layer_s[tier] == pytest.approx(expected.layer_s[tier])
        assert ours.update_s[tier] == pytest.approx(expected.update_s[tier])
    other = LayerTimes.from_flops(profile_model("alexnet"), flops_per_s=1e9, batch_size=1)
    with pytest.raises(ValueError, match="times of device are of alexnet"):
        problem_of_times(profile, times | {"device": other}, **LINKS)


test_problem_of_flops_refused = refusals(
    problem_of,
    {"profile": profile_model("lenet5"), "flops_per_s": SPEEDS} | LINKS,
    {
        "flops_per_s": {
            "flops_per_s takes one entry for each of device, edge": [{"edge": 1e9}, [1, 2, 3]],
            "flops_per_s is": [SPEEDS | {"edge": "fast"}, SPEEDS | {"edge": 0}],
        },
        "device_edge_bps": {"the device-edge bandwidth is": ["5 Mbps", 0]},
        "edge_cloud_bps": {"the edge-cloud bandwidth is": [None, NAN, True]},
        "batch": {"batch is 0": [0]},
    },
)


def test_bad_profiles_and_times_are_refused() -> None:
    profile: Any = profile_model("lenet5")
    cases: list[tuple[Any, Any, str]] = [
        ("lenet5", {}, r"the profile is 'lenet5'; .* profile_model\('lenet5'\)"),
        (profile, dict.fromkeys(TIERS, 1.0), r"times of device is 1\.0; give LayerTimes"),
    ]
    for wrong, times, message in cases:
        with pytest.raises(TypeError, match=message):
            problem_of_times(wrong, times, **LINKS)
    with pytest.raises(ValueError, match=r"times takes one entry for each of .*; got None"):
        problem_of_times(profile, None, **LINKS)  # type: ignore[arg-type]


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_planner_takes_a_problem(planner: str) -> None:
    with pytest.raises(TypeError, match="the problem is None; give a Problem"):
        PLANNERS[planner](None)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [None, "hiertrain"])
def test_an_iteration_takes_a_policy(policy: Any) -> None:
    with pytest.raises(TypeError, match=r"the policy is .*; give a Hybrid or a Chain.*PLANNERS\["):
        iteration(Problem(**good()), policy)
    with pytest.raises(TypeError, match="the problem is 3; give a Problem"):
        iteration(3, policy)  # type: ignore[call-overload]


def test_route_through_the_edge() -> None:
    assert through_edge(5e6, 2e6) == through_edge(2e6, 5e6) == 2e6
    both_s = 1 / 5e6 + 1 / 2e6
    assert 1 / through_edge(5e6, 2e6, route="store_and_forward") == pytest.approx(both_s)
    with pytest.raises(UnknownNameError, match="bottleneck, store_and_forward"):
        through_edge(5e6, 2e6, route="store")
