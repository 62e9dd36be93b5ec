"""Interfaces, latencies, outages and clusters that only Python can make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from tests.comparison.clusters import linked
from tests.refusals import refusals
from workbench.clusters import Cluster, Link, Node, Schedule, full_mesh
from workbench.comparison import METHODS, Problem, UnusableError, compare
from workbench.comparison.cost import limit
from workbench.comparison.memory import StepMemory
from workbench.profiles import LayerTimes, profile_model

PROFILE = profile_model("lenet5")
LINK = Link(1e7)
SENT = "one node, samples sent each epoch"
SERVED = "parameter server, sequential"


class Needs(StepMemory):
    """Needs the same whatever the samples, and knows no plan for less."""

    def __init__(self, needed: float) -> None:
        self.needed = needed

    def __call__(self, samples: int) -> float:
        return self.needed

    def within(self, samples: int, room_bytes: float) -> None:
        return None


def problem(
    owner: Node, link: Link = LINK, others: Sequence[Node] = (Node("b", flops_per_s=1e10),)
) -> Problem:
    return Problem(PROFILE, full_mesh([owner, *others], link), 8)


def owner(**about: object) -> Node:
    return Node("a", flops_per_s=1e9, samples=100, **about)  # type: ignore[arg-type]


def test_overheads_on_a_link_that_two_senders_use_keep_it_busy() -> None:
    """They overlap, so that the link is busy for one overhead and its part of the bytes."""
    senders = [Node(name, flops_per_s=1e7, samples=100) for name in "ab"]
    nodes = [*senders, Node("switch", flops_per_s=1e7), Node("gpu", flops_per_s=1e13)]
    near, far = Link(1e9), Link(1e9, overhead_s=0.02)
    links = {("a", "switch"): near, ("b", "switch"): near, ("switch", "gpu"): far}
    asked = Problem(PROFILE, linked(nodes, links), 8)
    found = limit(asked, METHODS[SENT].plan(asked).cost)
    assert found.what == "link switch to gpu"
    assert 0.98 < found.share <= 1 + 1e-9


class TestInterfaces:
    """``uplink_mbps`` and ``downlink_mbps`` of a node, below what its links carry."""

    @pytest.mark.parametrize("others", [1, 2])
    def test_samples_leave_as_fast_as_their_owner_sends(self, others: int) -> None:
        more = [Node(f"b{at}", flops_per_s=1e10) for at in range(others)]
        asked = problem(owner(uplink_bps=1e5), others=more)
        cost = METHODS[SENT].plan(asked).cost
        assert cost.iteration_s == pytest.approx(8 * 8 * 4 * 28 * 28 / 1e5)
        found = limit(asked, cost)
        assert found.what.startswith("link a to b")
        assert found.share == pytest.approx(1)

    def test_path_through_others_is_as_narrow_as_the_interfaces_on_it(self) -> None:
        nodes = [owner(uplink_bps=1e5), *(Node(name, flops_per_s=1e9) for name in "bc")]
        asked = Problem(PROFILE, linked(nodes, {(0, 1): LINK, (1, 2): LINK}), 8)
        assert asked.routes.path_bps(0, 2) == asked.routes.link(0, 2).bandwidth == 1e5
        assert asked.routes.path_bps(2, 0) == 1e7


def test_path_with_a_long_latency_hides_no_overhead_of_another() -> None:
    far, near = Link(1e9, latency_s=0.05), Link(1e9, overhead_s=0.002)
    nodes = [owner(), Node("c", flops_per_s=1e12), Node("b", flops_per_s=1e9, samples=100)]
    plan = METHODS[SENT].plan(Problem(PROFILE, linked(nodes, {(0, 1): far, (1, 2): near}), 8))
    assert plan.cost.iteration_s > 0.002


def test_samples_are_sent_ahead_however_long_they_travel() -> None:
    asked = problem(owner(), Link(1e7, latency_s=0.5))
    sent_s = 8 * 8 * 4 * 28 * 28 / 1e7
    cost = METHODS[SENT].plan(asked).cost
    assert cost.iteration_s == pytest.approx(max(sent_s, asked.batch_s(1)))


@pytest.mark.parametrize(
    "asked",
    [
        problem(owner(speed=[(0, 0), (1, 1)])),
        problem(owner(uplink_bps=[(0, 0), (1, 1e6)])),
        problem(owner(), Link(Schedule((0, 1), (0, 1e7)))),
    ],
    ids=["speed", "interface", "links"],
)
def test_outage_at_the_beginning_is_over_in_the_long_run(asked: Problem) -> None:
    for method in ("one node", SENT, SERVED):
        assert 0.01 < METHODS[method].plan(asked).cost.iteration_s < 5


BOTH = full_mesh([owner(), Node("b", flops_per_s=1e10)], LINK)
TIMES = LayerTimes.from_flops(PROFILE, flops_per_s=1e9, batch_size=4)

test_a_question = refusals(
    Problem,
    {"profile": PROFILE, "cluster": BOTH},
    {
        "cluster": {
            "no links lead from": [Cluster(BOTH.nodes), Cluster(BOTH.nodes, {(0, 1): LINK})],
            "b has neither gflops nor measured": [full_mesh([owner(), Node("b")], LINK)],
            "a would take .* s for a batch": [Cluster([Node("a", flops_per_s=1e-9)])],
        },
        "times": {"times is": [{"a"}, 5, [("a", 1)]], "node": [{"c": TIMES}, {0: TIMES}]},
    },
)
test_kinds_of_times = refusals(
    Problem,
    {"profile": PROFILE, "cluster": BOTH},
    {"times": {"times of a": [{"a": 3}]}},
    TypeError,
)


def test_links_without_limit_take_no_time_and_are_planned_for_as_very_fast_ones() -> None:
    asked = problem(owner(), Link(math.inf))
    times = asked.layer_times(0)
    cost = METHODS[SERVED].plan(asked).cost
    assert cost.iteration_s == pytest.approx(times.forward_s + times.backward_s)
    others = [Node("edge", flops_per_s=1e10), Node("cloud", flops_per_s=1e11)]
    rates = [
        METHODS["hiertrain"].plan(problem(owner(), Link(bps), others)).cost.samples_per_s
        for bps in (1e16, math.inf)
    ]
    assert rates[0] == pytest.approx(rates[1])


def test_edgegossip_is_no_choice_for_nodes_that_it_counts_as_failed() -> None:
    nodes = [Node(name, flops_per_s=1.0, samples=10) for name in "ab"]
    with pytest.raises(UnusableError, match=r"less than 0\.001 samples/s"):
        METHODS["edgegossip"].plan(Problem(PROFILE, full_mesh(nodes, Link(1e6)), 8))


class TestMemory:
    """A node is chosen that has the memory, if there is one."""

    def asked(self, *rooms: float | None, samples: int = 0) -> Problem:
        """A data owner, and nodes ever faster with room for as many models.

        The first of these holds samples as well.
        """
        size = float(PROFILE.table["param_bytes"].sum())
        others = [
            Node(f"b{at}", flops_per_s=10.0 ** (10 + at), memory_bytes=room and room * size)
            for at, room in enumerate(rooms)
        ]
        others[0] = replace(others[0], samples=samples)
        cluster = full_mesh([owner(), *others], Link(1e12))
        return Problem(PROFILE, cluster, 8, memory=Needs(100.0 * size))

    def test_unknown_memory_fits(self) -> None:
        asked = self.asked(None, 99.9, 100, 1.9, 2)
        assert [asked.fits(node, 8) for node in range(6)] == [True, True, False, True, False, False]
        assert [asked.fits(node, 0) for node in range(6)] == [True] * 4 + [False, True]
        assert replace(asked, memory=None).fits(4, 8)

    @pytest.mark.parametrize(
        ("needed", "chosen"), [((100, 99), 1), ((99, 100), 2), ((None, 99), 1), ((99, 99), 3)]
    )
    def test_samples_go_to_the_fastest_that_fits(
        self, needed: tuple[float, float], chosen: int
    ) -> None:
        asked = self.asked(*needed, 1)
        assert METHODS[SENT].plan(asked).batches == {chosen: 8}

    @pytest.mark.parametrize("method", [SERVED, "fedavg"])
    def test_server_has_the_memory(self, method: str) -> None:
        asked = self.asked(101, 1, 2, 1, samples=100)
        first, *others = asked.cluster.nodes
        first = replace(first, memory_bytes=101.0 * asked.model_bytes)
        asked = replace(asked, cluster=full_mesh([first, *others], Link(1e12)))
        assert METHODS[method].plan(asked).batches == {0: 8, 1: 8, 3: 0}

    def test_worker_that_serves_keeps_both(self) -> None:
        asked = self.asked(102, 101, samples=100)
        assert asked.needed_bytes(8, serves=True) == 102 * asked.model_bytes
        assert [asked.fits(node, 8, serves=True) for node in (1, 2)] == [True, False]


def test_scaled_times_are_an_assumption_of_every_method() -> None:
    times = {"a": TIMES, "b": LayerTimes.from_flops(PROFILE, flops_per_s=1e9, batch_size=8)}
    frame = compare("lenet5", BOTH, 8, times=times).frame
    assumes = frame.filter(pl.col("reason").is_null())["assumes"]
    assert len(assumes) > 3
    assert assumes.str.contains("times of a were measured with batches of 4").all()
    assert not assumes.str.contains("times of b").any()
