"""Devices and edges: the heuristic between its bound, the exact answer and going it alone."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Smoke
from tests.expectations import stored_frames
from tests.hiertrain.strategies import NUMBERS, choice_of, given_of, hybrids, problems
from tests.oracles import hiertrain_fleet as oracle
from tests.refusals import refusals
from workbench.hiertrain import TIERS, Problem, iteration
from workbench.hiertrain.algorithms.hiertrain import hiertrain
from workbench.hiertrain.costs.profiled import links_bps
from workbench.hiertrain.fleet import (
    Assignment,
    Fleet,
    Machine,
    Server,
    TooManyError,
    alone,
    assign,
    exact,
    fleet_of,
    lower_bound,
)
from workbench.hiertrain.fleet.assignment import timed
from workbench.hiertrain.fleet.search import greedy, value_of
from workbench.hiertrain.paper import fleets as drawn_fleets
from workbench.hiertrain.paper.fleets import FLEET, draw_fleets, mean_gaps
from workbench.profiles import profile_model

# Sums of n doubles in different orders differ by at most about n units in the last place.
RELATIVE = 1e-12
BANDWIDTHS = st.one_of(st.sampled_from([4.0, 8.0, 16.0]), st.floats(0.5, 80))

few, some = (
    settings(max_examples=settings().max_examples // share, deadline=None) for share in (5, 3)
)


def linked(problem: Problem, near_bps: float, uplink_bps: float, speed: float) -> Problem:
    """The same device at an edge with such links, `speed` times as slow."""
    return replace(
        problem,
        layer_s={**problem.layer_s, "edge": problem.layer_s["edge"] * speed},
        update_s={**problem.update_s, "edge": problem.update_s["edge"] * speed},
        bandwidth_bps=links_bps(near_bps, uplink_bps),
    )


@st.composite
def fleets(
    draw: st.DrawFn, max_devices: int, max_edges: int, max_layers: int = 3, max_batch: int = 4
) -> Fleet:
    """Fleets of unlike devices, of which some do not reach some edges."""
    edges = [f"edge {number}" for number in range(draw(st.integers(1, max_edges)))]
    uplinks_bps = {edge: draw(BANDWIDTHS) for edge in edges}
    speeds = {edge: draw(st.sampled_from([0.25, 0.5, 1.0, 3.0])) for edge in edges}
    devices = {}
    for number in range(draw(st.integers(1, max_devices))):
        problem = draw(problems(max_layers, max_batch, numbers=NUMBERS))
        devices[f"device {number}"] = {
            edge: linked(problem, draw(BANDWIDTHS), uplinks_bps[edge], speeds[edge])
            for edge in draw(st.lists(st.sampled_from(edges), min_size=1, unique=True))
        }
    return Fleet(devices)


def given_fleet(fleet: Fleet) -> oracle.GivenFleet:
    return oracle.GivenFleet(
        [
            {edge: given_of(problem) for edge, problem in by_edge.items()}
            for by_edge in fleet.problems.values()
        ]
    )


def check(fleet: Fleet, assigned: Assignment) -> None:
    """Every device has an edge that it reaches, a policy that fits, and the oracle's seconds."""
    for by_device in (assigned.edges, assigned.policies, assigned.seconds):
        assert list(by_device) == list(fleet.problems)
    for name, edge in assigned.edges.items():
        assigned.policies[name].check(fleet.problems[name][edge])
    choices = list(map(choice_of, assigned.policies.values()))
    expected_s = oracle.timed_s(given_fleet(fleet), list(assigned.edges.values()), choices)
    assert list(assigned.seconds.values()) == pytest.approx(expected_s, rel=RELATIVE)
    assert assigned.slowest_s == max(assigned.seconds.values())
    assert assigned.mean_s == pytest.approx(sum(expected_s) / len(expected_s), rel=RELATIVE)


@given(data=st.data(), fleet=fleets(4, 3))
def test_any_policies_take_the_seconds_of_their_shares(data: st.DataObject, fleet: Fleet) -> None:
    edges, policies = {}, {}
    for name, reached in fleet.problems.items():
        edges[name] = data.draw(st.sampled_from(list(reached)))
        policies[name] = data.draw(hybrids(reached[edges[name]]))
    check(fleet, timed(fleet, edges, policies))


@some
@given(fleet=fleets(4, 3))
def test_assign_and_exact_stand_between_bound_and_alone(fleet: Fleet) -> None:
    by_themselves, assigned, best = alone(fleet), assign(fleet), exact(fleet)
    for each in (by_themselves, assigned, best):
        check(fleet, each)
    bound = lower_bound(fleet)
    assert bound.slowest_s <= best.slowest_s * (1 + RELATIVE)
    assert bound.mean_s <= best.mean_s * (1 + RELATIVE)
    assert best.slowest_s <= assigned.slowest_s * (1 + RELATIVE)
    assert assigned.objective <= by_themselves.objective


@few
@given(fleet=fleets(3, 2, max_layers=2, max_batch=2))
def test_exact_is_as_fast_as_brute_force(fleet: Fleet) -> None:
    expected_s = oracle.exact_s(given_fleet(fleet))
    assert exact(fleet).slowest_s == pytest.approx(expected_s, rel=RELATIVE)


@given(problem=problems(max_layers=5, max_batch=9))
def test_one_device_and_one_edge_is_the_paper(problem: Problem) -> None:
    there = linked(problem, 5.0, 3.0, 1.0)
    fleet, policy = Fleet({"phone": {"tower": there}}), hiertrain(there)
    total_s = iteration(there, policy).total_s
    expected = Assignment({"phone": "tower"}, {"phone": policy}, {"phone": total_s})
    assert alone(fleet) == assign(fleet) == exact(fleet) == expected
    assert lower_bound(fleet) == (total_s, total_s)


@few
@given(data=st.data(), fleet=fleets(4, 3))
def test_order_does_not_matter(data: st.DataObject, fleet: Fleet) -> None:
    devices = data.draw(st.permutations(list(fleet.problems.items())))
    other = Fleet({name: dict(list(by_edge.items())[::-1]) for name, by_edge in devices})
    for planner in (alone, assign, exact, lower_bound):
        assert planner(other) == planner(fleet)


def compute_bound(seconds: float) -> Problem:
    """One layer and one sample, where nothing but computation counts."""
    return Problem(
        layer_s={"device": [[seconds, 0]], "edge": [[1, 0]], "cloud": [[1e9, 0]]},
        update_s={tier: [0.0] for tier in TIERS},
        param_bytes=[0.0],
        output_bytes=[0.0],
        sample_bytes=0.0,
        bandwidth_bps=dict.fromkeys(
            [("device", "edge"), ("edge", "cloud"), ("device", "cloud")], 1
        ),
        batch=1,
    )


def at_edges(*seconds: tuple[float, ...]) -> Fleet:
    """Devices by their seconds by themselves and at edges a and b, or a alone."""
    devices = {}
    for number, (by_itself, *there_s) in enumerate(seconds):
        problem = compute_bound(by_itself)
        devices[f"device {number}"] = {
            edge: replace(problem, layer_s={**problem.layer_s, "edge": np.array([[edge_s, 0.0]])})
            for edge, edge_s in zip("ab", there_s, strict=False)
        }
    return Fleet(devices)


@pytest.mark.parametrize(
    ("seconds", "begun_s", "best_s"),
    [
        # From what both begin with no move alone leads on, and then no swap alone.
        (((100, 1, 2), (100, 5, 2), (100, 5, 4), (2, 3, 2)), 8, 5),
        (((4, 2, 3), (3, 2, 5), (100, 2, 4)), 4, 3),
    ],
    ids=["swap", "move"],
)
def test_a_swap_or_a_move_mends_both_beginnings(
    seconds: Any, begun_s: float, best_s: float
) -> None:
    fleet = at_edges(*seconds)
    value = value_of(fleet)
    assert value(greedy(fleet, value))[0] == value(alone(fleet).edges)[0] == begun_s
    assert exact(fleet).slowest_s == best_s
    assert assign(fleet).slowest_s == best_s


def test_the_slowest_counts_before_the_mean() -> None:
    fleet = at_edges((10, 6), (7, 1))  # on one edge, which would save the second more
    for together in (assign(fleet), exact(fleet)):
        assert list(together.seconds.values()) == [6, 7]


def test_three_devices_by_hand() -> None:
    """Devices of 100, 100 and 1.5 seconds by themselves; an edge takes 1."""
    own_s = {"slow": 100, "slower": 100, "fast": 1.5}
    fleet = Fleet({name: dict.fromkeys("ab", compute_bound(s)) for name, s in own_s.items()})
    by_themselves = alone(fleet)
    assert set(by_themselves.edges.values()) == {"a"}
    assert set(by_themselves.seconds.values()) == {3.0}
    for together in (assign(fleet), exact(fleet)):
        assert together.edges["slow"] != together.edges["slower"]
        assert together.policies["fast"].taking_part == ("device",)
        assert dict(together.seconds) == {"fast": 1.5, "slow": 1.0, "slower": 1.0}
        assert together.table()["device"].to_list() == ["fast", "slow", "slower"]
    assert lower_bound(fleet) == (1.5, 1.0)  # three cannot share two edges in less than 1.5 s


PROFILE = profile_model("lenet5")
TOWERS = {"a": Server(4e10, 3e6), "b": Server(8e10, 2e6)}


def machines(count: int) -> dict[str, Machine]:
    return {
        f"pi {number}": Machine(PROFILE, 1e9 * (number + 1), 32, {"a": 5e6, "b": 4e6})
        for number in range(count)
    }


def test_fleet_from_profiles() -> None:
    fleet = fleet_of(machines(2), TOWERS, cloud_flops_per_s=5e11)
    problem = fleet.problems["pi 1"]["b"]
    flops = PROFILE.table["forward_flops"].to_numpy()
    for tier, speed in zip(TIERS, (2e9, 8e10, 5e11), strict=True):
        assert problem.layer_s[tier][:, 0] == pytest.approx(flops / speed)
    assert problem.bandwidth_bps["device", "cloud"] == 2e6
    assert problem.batch == 32


def test_exact_tells_how_many_it_refuses() -> None:
    with pytest.raises(TooManyError, match=r"10 devices have 1,024 assignments.*limit of 1,000"):
        exact(fleet_of(machines(10), TOWERS, cloud_flops_per_s=5e11))


test_machines_refused = refusals(
    fleet_of,
    {"devices": machines(1), "edges": TOWERS, "cloud_flops_per_s": 1e11},
    {
        "devices": {
            "at least one device; none was given": [{}],
            "device 'd' has no link to any edge": [{"d": Machine(PROFILE, 1e9, 32, {})}],
        },
        "edges": {"unknown edge of device 'pi 0' 'b'": [{"a": TOWERS["a"]}]},
    },
)


@pytest.mark.parametrize("planner", [alone, assign, exact, lower_bound])
def test_planner_takes_a_fleet(planner: Any) -> None:
    with pytest.raises(TypeError, match="the fleet is None; give a Fleet"):
        planner(None)


@pytest.fixture(scope="module")
def frame(smoke: Smoke) -> pl.DataFrame:
    return stored_frames(smoke, "hiertrain")["fleet"]


SEED = 1  # of the notebook


def test_fleets_repeat_with_the_seed(frame: pl.DataFrame) -> None:
    count = math.prod(len(FLEET.sizes[name].smoke) for name in ("devices", "edges", "draws"))
    assert frame.schema == drawn_fleets.FLEETS
    assert len(frame) == 4 * count
    assert frame["reason"].null_count() == 4 * count
    assert FLEET.frame("smoke", seed=SEED).equals(frame)
    assert not FLEET.frame("smoke", seed=SEED + 1).equals(frame)


def test_methods_stand_between_bound_and_alone(frame: pl.DataFrame) -> None:
    bound_s, exact_s, assigned_s, alone_s = (
        frame.filter(method=method)["slowest_s"]
        for method in ("lower bound", "exact", "assign", "alone")
    )
    assert (bound_s <= exact_s * (1 + RELATIVE)).all()
    assert (exact_s <= assigned_s * (1 + RELATIVE)).all()
    assert (assigned_s <= alone_s).all()
    gaps = frame.filter(pl.col("method") == "alone")
    expected = 100 * (gaps["slowest_s"] / bound_s - 1)
    assert gaps["gap_percent"].to_list() == pytest.approx(expected.to_list())
    gaps = mean_gaps(frame).filter(method="exact")
    assert gaps["best"].to_list() == gaps["compared"].to_list() == gaps["fleets"].to_list()
    assert gaps["above_exact_percent"].to_list() == [0.0] * len(gaps)


def test_larger_fleets_hold_the_smaller(frame: pl.DataFrame) -> None:
    best = frame.filter(method="exact", edges=2).sort("devices")["slowest_s"]
    assert best.is_sorted()
    few, more = (drawn_fleets.drawn_fleet(n, n, 0, seed=0) for n in (2, 3))
    for name, by_edge in few.problems.items():
        for edge, problem in by_edge.items():
            assert given_of(problem) == given_of(more.problems[name][edge])


def test_too_many_assignments_are_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_fleets, "MODELS", ("lenet5",))
    frame = drawn_fleets.fleets([10], [2], [0], processes=1)
    (refused,) = frame.filter(method="exact").rows(named=True)
    assert refused["slowest_s"] is None
    assert "10 devices have 1,024 assignments" in refused["reason"]
    assert frame["above_exact_percent"].null_count() == 4
    gaps = mean_gaps(frame)
    assert gaps["method"].to_list() == ["alone", "assign"]
    assert gaps["compared"].to_list() == [0, 0]
    assert "best assignment" not in str(draw_fleets(frame).to_dict())
