"""The first bandwidth at which another system becomes the fastest."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.clusters import Link, Node, full_mesh
from workbench.comparison import METHODS, Problem
from workbench.comparison.cost import Cost
from workbench.comparison.memory import NodeMemory
from workbench.comparison.methods import Method, Plan
from workbench.comparison.methods.method import EQUAL
from workbench.comparison.threshold import (
    RESOLUTION,
    STEP,
    STEPS,
    Threshold,
    first,
    threshold,
)
from workbench.profiles import profile_model

MBPS = 10.0
TWO = full_mesh([Node(name, flops_per_s=1e9, samples=10) for name in "ab"], Link(MBPS * 1e6))
PROBLEM = Problem(profile_model("lenet5"), TWO, 8)

Rate = Callable[[float], float]
"""Samples a second by Mbit/s."""


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Add a method of a new system, with a given rate at each bandwidth."""

    def add(
        name: str, rate: Rate, *, fits: bool = True, learns_from: tuple[int, ...] = (0, 1)
    ) -> None:
        def plan(problem: Problem) -> Plan:
            mbps = problem.cluster.links[0, 1].bandwidth / 1e6  # type: ignore[operator]
            cost = Cost(1 / rate(mbps), 1, {0: 1e-9}, {(0, 1): 1.0}, {(0, 1): 1.0})
            is_now = mbps == MBPS
            memory = {0: NodeMemory(1.0, fits or is_now)}
            whole = (0, 1) if is_now else learns_from
            return Plan(cost=cost, learns_from=whole, batches={0: 1}, memory=memory)

        method = Method(name=name, system=name.title(), update=EQUAL, planner=plan)
        monkeypatch.setitem(METHODS, name, method)

    return add


def overtaking(*methods: str, problem: Problem = PROBLEM) -> Threshold | None:
    """The bandwidth at which the first of these methods is overtaken."""
    return threshold(problem, {name: METHODS[name].plan(problem) for name in methods})


@given(ahead=st.lists(st.booleans(), min_size=STEPS, max_size=STEPS), up=st.booleans())
def test_first_bandwidth_on_the_grid_is_found_wherever_others_follow(
    ahead: list[bool], up: bool
) -> None:
    """The leader changes halfway between two bandwidths of the grid, up and down again."""
    step = STEP if up else 1 / STEP
    grid = [step**count for count in range(1, STEPS + 1)]

    def leader(factor: float) -> str | None:
        count = round(math.log(factor, step))
        return "other" if count > 0 and ahead[count - 1] else None

    crossing = first(leader, step)
    if crossing is None:
        assert not any(ahead)
        return
    wanted = grid[ahead.index(True)]
    factor, other = crossing
    assert other == "other"
    assert leader(factor) == "other"
    assert abs(math.log(factor / wanted, step)) <= 0.5 + 1e-9


@pytest.mark.parametrize("at_mbps", [10.5, 13.0, 150.0, 900.0])
@pytest.mark.parametrize("above", [True, False])
def test_threshold_is_where_the_rates_cross(
    known: Callable[..., None], at_mbps: float, *, above: bool
) -> None:
    crossing = at_mbps if above else MBPS**2 / at_mbps
    names = ("level", "by links") if above else ("by links", "level")
    known("level", lambda mbps: 1.0)
    known("by links", lambda mbps: mbps / crossing)
    found = overtaking(*names)
    assert found is not None
    assert found.above is above
    apart = found.bandwidth_mbps / crossing
    assert 1 <= (apart if above else 1 / apart) <= RESOLUTION


def test_method_that_is_ahead_only_for_a_while_overtakes(known: Callable[..., None]) -> None:
    known("steps", lambda mbps: 3.0 if mbps > 130 else 1.0)
    known("peak", lambda mbps: min(2.0, mbps / 60))
    crossing = overtaking("steps", "peak")
    assert crossing is not None
    assert 60 < crossing.bandwidth_mbps <= 60 * RESOLUTION
    at = f"{crossing.bandwidth_mbps:.3g} Mbit/s (a to b and back)"
    assert str(crossing) == f"With more bandwidth, Peak becomes the fastest at {at}."


@pytest.mark.parametrize(
    ("rate", "options"),
    [
        pytest.param(lambda mbps: 1.0 + 1e-12, {}, id="ahead by rounding"),
        pytest.param(lambda mbps: mbps / 20, {"fits": False}, id="does not fit"),
        pytest.param(lambda mbps: mbps / 20, {"learns_from": (0,)}, id="leaves samples out"),
        pytest.param(lambda mbps: mbps / 3000, {}, id="beyond the grid"),
    ],
)
def test_no_threshold_where_none_overtakes(
    known: Callable[..., None], rate: Rate, options: dict[str, object]
) -> None:
    known("level", lambda mbps: 1.0)
    known("other", rate, **options)
    assert overtaking("level", "other") is None


def test_methods_are_planned_only_for_bandwidths_at_which_they_may_lead(
    known: Callable[..., None],
) -> None:
    planned = []

    def rate(mbps: float) -> float:
        planned.append(round(mbps))
        return 0.1

    known("level", lambda mbps: 1.0)
    known("slow", rate)
    assert overtaking("level", "slow") is None
    assert sorted({*planned}) == [10, 160, 2560]


def test_threshold_of_real_methods_is_the_first_on_a_grid_by_hand() -> None:
    def problem_at(mbps: float) -> Problem:
        cluster = full_mesh(TWO.nodes, Link(mbps * 1e6, overhead_s=0.001))
        return Problem(PROBLEM.profile, cluster, 8)

    def is_ahead(mbps: float) -> bool:
        own, other = (
            METHODS[method].plan(problem_at(mbps)).cost.samples_per_s
            for method in (alone, together)
        )
        return other > own

    alone, together = "one node, samples sent once", "all-reduce"
    wanted = next(mbps for at in range(STEPS) if is_ahead(mbps := MBPS * STEP ** (at + 1)))
    crossing = overtaking(alone, together, problem=problem_at(MBPS))
    assert crossing is not None
    assert wanted / STEP < crossing.bandwidth_mbps <= wanted
