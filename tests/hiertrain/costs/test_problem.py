"""Problems validate themselves; problems from profiles."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.hiertrain.strategies import given_of, problems
from tests.refusals import refusals
from workbench.clusters import Link
from workbench.hiertrain import TIERS, Problem, links_through_edge, problem_of, problem_of_times
from workbench.profiles import LayerTimes, profile_model

NAN, INFINITE = float("nan"), float("inf")
LINKS = {
    ("device", "edge"): Link(5e6),
    ("edge", "cloud"): Link(3e6),
    ("device", "cloud"): Link(2e6),
}


def good() -> dict[str, Any]:
    return {
        "layer_s": {tier: [[1, 2], [3, 4]] for tier in TIERS},
        "update_s": {tier: [1, 2] for tier in TIERS},
        "param_bytes": [10, 20],
        "output_bytes": [5, 6],
        "sample_bytes": 7,
        "links": dict(LINKS),
        "batch": 4,
    }


def test_a_pair_may_be_written_in_either_order() -> None:
    swapped = {(b, a): link for (a, b), link in LINKS.items()}
    problem = Problem(**(good() | {"links": swapped}))
    assert dict(problem.links) == LINKS
    assert problem.seconds(5e6 / 8, "device", "edge") == 1
    assert problem.seconds(5e6 / 8, "edge", "device") == 1
    assert problem.seconds(5e6 / 8, "edge", "edge") == 0
    with pytest.raises(ValueError, match="no link between 'edge' and 'fog'"):
        problem.seconds(1, "edge", "fog")


def but(name: str, tier: str, value: object) -> dict[str, Any]:
    return {**good()[name], tier: value}


def linked(*links: Link) -> list[object]:
    return [LINKS | {("edge", "cloud"): link} for link in links]


test_problem_refused = refusals(
    Problem,
    good(),
    {
        "layer_s": {
            "layer_s is for edge; map each of device, edge, cloud": [{"edge": [[1, 2]]}],
            "layer_s of edge takes a row of 2 numbers per layer": [
                but("layer_s", "edge", [1, 2]),
                but("layer_s", "edge", [[1, 2, 3]] * 2),
            ],
            "layer_s of edge of layer 2 is nan": [but("layer_s", "edge", [[1, 2], [NAN, 1]])],
            "the lengths differ": [but("layer_s", "edge", [[1, 2]])],
            "their sum is not": [but("layer_s", "edge", [[1e308, 1]] * 2)],
        },
        "update_s": {
            "update_s is for .*fog": [but("update_s", "fog", [1, 2])],
            "the lengths differ": [but("update_s", "edge", [1])],
            "update_s of edge of layer 2 is -1": [but("update_s", "edge", [1, -1])],
        },
        "param_bytes": {
            "the lengths differ": [[1]],
            "their sum is not": [[1e308, 1e308]],
            "param_bytes takes one number per layer, at least one": [[]],
        },
        "output_bytes": {"output_bytes of layer 2 is inf": [[1, INFINITE]]},
        "sample_bytes": {"sample_bytes is": [-1, INFINITE]},
        "batch": {"batch is 1000000; it must be at most 100000": [10**6]},
        "links": {
            "between edge and cloud has more than a constant bandwidth": linked(
                Link([(0, 1e6), (5, 2e6)]), Link(1e6, tensor_s=0.1)
            ),
            "lacks the link between edge and cloud; device and": [{("device", "edge"): Link(1)}],
            "twice; it is the same both": [LINKS | {("cloud", "edge"): Link(1)}],
            "links is .*; map pairs of tiers to links": [
                5e6,
                dict.fromkeys(LINKS, 5e6),
                {"edge": Link(1)},
                {("device", "edge", "cloud"): Link(1)},
            ],
            "no link between 'fog' and 'edge'": [LINKS | {("fog", "edge"): Link(1)}],
        },
    },
)


def test_problem_cannot_be_changed_afterwards() -> None:
    given_s = np.array([[1.0, 2.0], [3.0, 4.0]])
    problem = Problem(**(good() | {"layer_s": but("layer_s", "edge", given_s)}))
    given_s[0, 0] = 100
    assert problem.layer_s["edge"][0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        problem.param_bytes[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        problem.span_s[0, 0, 0, 1] = 1


@given(problem=problems(max_layers=4, max_batch=5))
def test_problem_survives_pickling(problem: Problem) -> None:
    copy = pickle.loads(pickle.dumps(problem))
    assert given_of(copy) == given_of(problem)


SPEEDS = {"device": 2e9, "edge": 8e9, "cloud": 5e11}
WAYS: dict[str, Any] = {"device_edge_bps": 5e6, "edge_cloud_bps": 3e6, "batch": 32}


def test_problem_from_flops() -> None:
    profile = profile_model("lenet5")
    problem = problem_of(profile, flops_per_s=SPEEDS, **WAYS)
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
    assert problem.links == links_through_edge(5e6, 3e6)
    assert problem.links["device", "cloud"] == Link(3e6)


def test_problem_from_times_takes_seconds_per_sample() -> None:
    profile = profile_model("lenet5")
    times = {
        tier: LayerTimes.from_flops(profile, flops_per_s=speed, batch_size=batch_size)
        for (tier, speed), batch_size in zip(SPEEDS.items(), (1, 8, 64), strict=True)
    }
    ours = problem_of_times(profile, times, **WAYS)
    expected = problem_of(profile, flops_per_s=SPEEDS, **WAYS)
    for tier in TIERS:
        assert ours.layer_s[tier] == pytest.approx(expected.layer_s[tier])
        assert ours.update_s[tier] == pytest.approx(expected.update_s[tier])
    other = LayerTimes.from_flops(profile_model("alexnet"), flops_per_s=1e9, batch_size=1)
    with pytest.raises(ValueError, match="times of device are of alexnet"):
        problem_of_times(profile, times | {"device": other}, **WAYS)


test_problem_of_flops_refused = refusals(
    problem_of,
    {"profile": profile_model("lenet5"), "flops_per_s": SPEEDS} | WAYS,
    {
        "flops_per_s": {
            "flops_per_s is for .*; map each of device, edge, cloud to its FLOP/s": [
                {"edge": 1e9},
                1e9,
                None,
            ],
            "flops_per_s is": [SPEEDS | {"edge": "fast"}, SPEEDS | {"edge": 0}],
        },
        "device_edge_bps": {"bandwidth_bps is": [0], "device_edge_bps is .*a number": [None, "5"]},
        "edge_cloud_bps": {"edge_cloud_bps is .*; give a number": [None]},
        "batch": {"batch is 0": [0]},
    },
)
test_problem_of_no_profile_refused = refusals(
    problem_of,
    {"profile": profile_model("lenet5"), "flops_per_s": SPEEDS} | WAYS,
    {"profile": {"profile is .*; give profile_model": ["lenet5", None]}},
    TypeError,
)


def test_times_that_are_not_of_the_tiers_are_refused() -> None:
    profile = profile_model("lenet5")
    times = LayerTimes.from_flops(profile, flops_per_s=1e9, batch_size=1)
    with pytest.raises(ValueError, match="map each of device, edge, cloud to its LayerTimes"):
        problem_of_times(profile, times, **WAYS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"times of device is 1\.0; give LayerTimes"):
        problem_of_times(profile, dict.fromkeys(TIERS, 1.0), **WAYS)  # type: ignore[arg-type]
