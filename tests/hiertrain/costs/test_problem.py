"""Problems validate themselves; problems from profiles."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.hiertrain.strategies import given_of, problems
from workbench.hiertrain import (
    PLANNERS,
    TIERS,
    Problem,
    iteration,
    problem_of,
    problem_of_times,
    through_edge,
)
from workbench.names import UnknownNameError
from workbench.profiles import LayerTimes, profile_model

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


def test_everything_but_the_overhead_may_be_given_by_position() -> None:
    by_name, by_position = Problem(**good()), Problem(*good().values())
    assert given_of(by_position) == given_of(by_name)
    with pytest.raises(TypeError, match="positional"):
        Problem(*good().values(), 0.0)  # type: ignore[call-arg]


def test_a_pair_may_be_written_in_either_order() -> None:
    swapped = {(b, a): bps for (a, b), bps in BANDWIDTHS.items()}
    problem = Problem(**(good() | {"bandwidth_bps": swapped}))
    assert dict(problem.bandwidth_bps) == BANDWIDTHS
    assert problem.seconds(5e6 / 8, "device", "edge") == 1
    assert problem.seconds(5e6 / 8, "edge", "device") == 1
    assert problem.seconds(5e6 / 8, "edge", "edge") == 0
    with pytest.raises(ValueError, match="no link between 'edge' and 'fog'"):
        problem.seconds(1, "edge", "fog")


def changed(name: str, tier: str, value: object) -> dict[str, object]:
    return {name: good()[name] | {tier: value}}


def bandwidth(value: object) -> dict[str, object]:
    return {"bandwidth_bps": BANDWIDTHS | {("edge", "cloud"): value}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer_s": {"edge": [[1, 2]]}}, "layer_s takes numbers for each of device, edge, cloud"),
        (changed("update_s", "fog", [1, 2]), "update_s takes numbers for each of .*fog"),
        (changed("layer_s", "edge", [1, 2]), "layer_s of edge takes a row of 2 numbers per layer"),
        (
            changed("layer_s", "edge", [[1, 2, 3]] * 2),
            "layer_s of edge takes a row of 2 numbers per layer",
        ),
        (changed("layer_s", "edge", [[1, 2], [NAN, 1]]), "layer_s of edge of layer 2 is nan"),
        (changed("layer_s", "cloud", [[1, -2], [1, 1]]), "layer_s of cloud of layer 1 is -2"),
        (changed("layer_s", "edge", [[1, 2]]), "the lengths differ"),
        (changed("update_s", "edge", [1]), "the lengths differ"),
        (changed("update_s", "edge", [1, -1]), "update_s of edge of layer 2 is -1"),
        ({"param_bytes": [1]}, "the lengths differ"),
        ({"param_bytes": []}, "param_bytes takes one number per layer, at least one"),
        ({"param_bytes": ["a", "b"]}, "param_bytes takes numbers"),
        ({"output_bytes": [1, INFINITE]}, "output_bytes of layer 2 is inf"),
        ({"sample_bytes": -1}, "sample_bytes is -1"),
        (bandwidth(0), "bandwidth_bps between edge and cloud is 0; it must be positive"),
        (bandwidth(-5), "between edge and cloud is -5"),
        (bandwidth(NAN), "between edge and cloud is nan"),
        (bandwidth(INFINITE), "between edge and cloud is inf"),
        (bandwidth("5 Mbps"), "edge and cloud is '5 Mbps'; give it as a number of bits per second"),
        (bandwidth(None), "between edge and cloud is None; give it as a number"),
        (bandwidth(True), "between edge and cloud is True; give it as a number"),
        ({"bandwidth_bps": 5e6}, r"bandwidth_bps is 5000000.0; give one for each pair.*'edge'\)"),
        (
            {"bandwidth_bps": BANDWIDTHS | {"device-edge": 1}},
            r"names 'device-edge', which is no pair of tiers; give \{\('device', 'edge'\): 5e6",
        ),
        ({"bandwidth_bps": {"ab": 1}}, "names 'ab', which is no pair"),
        ({"sample_bytes": [1, 2]}, r"sample_bytes takes one number, not \[1, 2\]"),
        ({"sample_bytes": 1j}, "sample_bytes takes one number, not 1j"),
        ({"param_bytes": np.array([1j, 2])}, "param_bytes takes numbers"),
        ({"param_bytes": ["1", "2"]}, "param_bytes takes numbers"),
        ({"param_bytes": [True, False]}, "param_bytes takes numbers"),
        ({"output_bytes": [None, 1]}, "output_bytes of layer 1 is nan"),
        ({"bandwidth_bps": {("device", "edge"): 1}}, "missing between edge and cloud; device and"),
        ({"bandwidth_bps": BANDWIDTHS | {("cloud", "edge"): 1}}, "twice; it is the same both"),
        ({"bandwidth_bps": BANDWIDTHS | {("fog", "edge"): 1}}, "no link between 'fog' and 'edge'"),
        ({"batch": 0}, "batch is 0, not a whole number of samples"),
        ({"batch": 1.5}, "batch is 1.5"),
        ({"batch": True}, "batch is True"),
        ({"overhead_s": -1}, "overhead_s is -1"),
        ({"overhead_s": NAN}, "overhead_s is nan"),
        ({"overhead_s": 1.7e308}, "their sum is not"),
    ],
)
def test_problem_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    Problem(**good())
    with pytest.raises(ValueError, match=message):
        Problem(**(good() | change))


def test_problem_cannot_be_changed_afterwards() -> None:
    given_s = np.array([[1.0, 2.0], [3.0, 4.0]])
    problem = Problem(**(good() | changed("layer_s", "edge", given_s)))
    given_s[0, 0] = 100
    assert problem.layer_s["edge"][0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        problem.param_bytes[0] = 1
    with pytest.raises(TypeError):
        problem.bandwidth_bps["device", "edge"] = 1  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        problem.forward_span_s["edge"][0, 1] = 1


@given(problem=problems(max_layers=4, max_batch=5))
def test_problem_survives_pickling(problem: Problem) -> None:
    copy = pickle.loads(pickle.dumps(problem))
    assert given_of(copy) == given_of(problem)


@given(problem=problems(max_layers=6, max_batch=5))
def test_spans_are_the_sums_of_their_layers(problem: Problem) -> None:
    for a in range(problem.layers + 1):
        for b in range(problem.layers + 1):
            for tier in TIERS:
                for column, spans in enumerate((problem.forward_span_s, problem.backward_span_s)):
                    layers_s = problem.layer_s[tier][a:b, column]
                    assert spans[tier][a, b] == pytest.approx(sum(layers_s), rel=1e-12)


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


def test_problem_from_flops_with_choices_of_its_own() -> None:
    profile = profile_model("lenet5")
    problem = problem_of(
        profile,
        flops_per_s=SPEEDS,
        route="store_and_forward",
        sample_bytes=784,
        backward_over_forward=2.0,
        update_bytes_per_s=dict.fromkeys(TIERS, 1e9),
        overhead_s=0.01,
        **LINKS,
    )
    assert problem.layer_s["device"][:, 1] == pytest.approx(2 * problem.layer_s["device"][:, 0])
    assert problem.update_s["device"] == pytest.approx(problem.param_bytes / 1e9)
    assert (problem.sample_bytes, problem.overhead_s) == (784, 0.01)
    assert problem.bandwidth_bps["device", "cloud"] == pytest.approx(15e6 / 8)


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flops_per_s": {"edge": 1e9}}, "flops_per_s takes one entry for each of device, edge"),
        ({"flops_per_s": [1, 2, 3]}, r"one entry for each of .*; got \[1, 2, 3\]"),
        ({"flops_per_s": SPEEDS | {"edge": "fast"}}, "flops_per_s of edge is 'fast'; give it as a"),
        ({"device_edge_bps": "5 Mbps"}, "the device-edge bandwidth is '5 Mbps'; give it as a num"),
        ({"edge_cloud_bps": None}, "the edge-cloud bandwidth is None"),
        ({"profile": "lenet5"}, r"the profile is 'lenet5'; .* profile_model\('lenet5'\)"),
        ({"flops_per_s": SPEEDS | {"edge": 0}}, "flops_per_s of edge is 0"),
        ({"update_bytes_per_s": SPEEDS | {"edge": NAN}}, "update_bytes_per_s of edge is nan"),
        ({"device_edge_bps": 0}, "the device-edge bandwidth is 0"),
        ({"edge_cloud_bps": NAN}, "the edge-cloud bandwidth is nan"),
        ({"batch": 0}, "batch is 0"),
        ({"sample_bytes": -1}, "sample_bytes is -1"),
    ],
)
def test_bad_machines_are_refused(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"profile": profile_model("lenet5"), "flops_per_s": SPEEDS} | LINKS
    with pytest.raises(ValueError, match=message):
        problem_of(**(given | change))


def test_bad_times_are_refused() -> None:
    profile = profile_model("lenet5")
    with pytest.raises(ValueError, match=r"times of device is 1\.0; give LayerTimes"):
        problem_of_times(profile, dict.fromkeys(TIERS, 1.0), **LINKS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"times takes one entry for each of .*; got None"):
        problem_of_times(profile, None, **LINKS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the profile is None"):
        problem_of_times(None, {}, **LINKS)  # type: ignore[arg-type]


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


def test_a_bandwidth_is_a_number() -> None:
    with pytest.raises(ValueError, match="the device-edge bandwidth is '5'; give it as a number"):
        through_edge("5", 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the edge-cloud bandwidth is True"):
        through_edge(5.0, True)


def test_faster_links_never_slow_hiertrain_down() -> None:
    problem, before_s = problem_of(profile_model("alexnet"), flops_per_s=SPEEDS, **LINKS), INFINITE
    for factor in (0.5, 1, 2, 4, 8, 1000):
        faster = {pair: bps * factor for pair, bps in problem.bandwidth_bps.items()}
        quicker = replace(problem, bandwidth_bps=faster)
        total_s = iteration(quicker, PLANNERS["hiertrain"](quicker)).total_s
        assert total_s <= before_s * (1 + 1e-12)
        before_s = total_s
