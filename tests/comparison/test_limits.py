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
    """The same memory for any number of samples."""

    def __init__(self, needed: float) -> None:
        self.needed = needed

    def __call__(self, samples: int) -> float:
        return self.needed


def problem_of(
    owner: Node, link: Link = LINK, others: Sequence[Node] = (Node("b", flops_per_s=1e10),)
) -> Problem:
    return Problem(PROFILE, full_mesh([owner, *others], link), 8)


def owner(**about: object) -> Node:
    return Node("a", flops_per_s=1e9, samples=100, **about)  # type: ignore[arg-type]


def test_overheads_on_a_link_that_two_senders_use_keep_it_busy() -> None:
    """Overheads overlap, so that the link is busy for one of them and for all bytes."""
    senders = [Node(name, flops_per_s=1e7, samples=100) for name in "ab"]
    nodes = [*senders, Node("switch", flops_per_s=1e7), Node("gpu", flops_per_s=1e13)]
    near, far = Link(1e9), Link(1e9, overhead_s=0.02)
    links = {("a", "switch"): near, ("b", "switch"): near, ("switch", "gpu"): far}
    problem = Problem(PROFILE, linked(nodes, links), 8)
    found = limit(problem, METHODS[SENT].plan(problem).cost)
    assert found.what == "link switch to gpu"
    assert 0.98 < found.share <= 1 + 1e-9


class TestInterfaces:
    """``uplink_mbps`` and ``downlink_mbps`` of a node, below what its links carry."""

    @pytest.mark.parametrize("others", [1, 2])
    def test_samples_leave_as_fast_as_their_owner_sends(self, others: int) -> None:
        more = [Node(f"b{at}", flops_per_s=1e10) for at in range(others)]
        problem = problem_of(owner(uplink_bps=1e5), others=more)
        cost = METHODS[SENT].plan(problem).cost
        assert cost.iteration_s == pytest.approx(8 * 8 * 4 * 28 * 28 / 1e5)
        found = limit(problem, cost)
        assert found.what.startswith("link a to b")
        assert found.share == pytest.approx(1)

    def test_path_through_others_is_as_narrow_as_the_interfaces_on_it(self) -> None:
        nodes = [owner(uplink_bps=1e5), *(Node(name, flops_per_s=1e9) for name in "bc")]
        problem = Problem(PROFILE, linked(nodes, {(0, 1): LINK, (1, 2): LINK}), 8)
        assert problem.routes.path_bps(0, 2) == problem.routes.link(0, 2).bandwidth == 1e5
        assert problem.routes.path_bps(2, 0) == 1e7


def test_path_with_a_long_latency_hides_no_overhead_of_another() -> None:
    far, near = Link(1e9, latency_s=0.05), Link(1e9, overhead_s=0.002)
    nodes = [owner(), Node("c", flops_per_s=1e12), Node("b", flops_per_s=1e9, samples=100)]
    plan = METHODS[SENT].plan(Problem(PROFILE, linked(nodes, {(0, 1): far, (1, 2): near}), 8))
    assert plan.cost.iteration_s > 0.002


def test_samples_are_sent_ahead_however_long_they_travel() -> None:
    problem = problem_of(owner(), Link(1e7, latency_s=0.5))
    sent_s = 8 * 8 * 4 * 28 * 28 / 1e7
    cost = METHODS[SENT].plan(problem).cost
    assert cost.iteration_s == pytest.approx(max(sent_s, problem.batch_s(1)))


@pytest.mark.parametrize(
    "problem",
    [
        problem_of(owner(speed=[(0, 0), (1, 1)])),
        problem_of(owner(uplink_bps=[(0, 0), (1, 1e6)])),
        problem_of(owner(), Link(Schedule((0, 1), (0, 1e7)))),
    ],
    ids=["speed", "interface", "links"],
)
def test_outage_at_the_beginning_is_over_in_the_long_run(problem: Problem) -> None:
    for method in ("one node", SENT, SERVED):
        assert 0.01 < METHODS[method].plan(problem).cost.iteration_s < 5


BOTH = full_mesh([owner(), Node("b", flops_per_s=1e10)], LINK)
TIMES = LayerTimes.from_flops(PROFILE, flops_per_s=1e9, batch_size=4)

test_a_problem = refusals(
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
    problem = problem_of(owner(), Link(math.inf))
    times = problem.layer_times(0)
    cost = METHODS[SERVED].plan(problem).cost
    assert cost.iteration_s == pytest.approx(times.forward_s + times.backward_s)
    others = [Node("edge", flops_per_s=1e10), Node("cloud", flops_per_s=1e11)]
    rates = [
        METHODS["hiertrain"].plan(problem_of(owner(), Link(bps), others)).cost.samples_per_s
        for bps in (1e16, math.inf)
    ]
    assert rates[0] == pytest.approx(rates[1])


def test_edgegossip_refuses_nodes_that_it_counts_as_failed() -> None:
    nodes = [Node(name, flops_per_s=1.0, samples=10) for name in "ab"]
    with pytest.raises(UnusableError, match=r"less than 0\.001 samples/s"):
        METHODS["edgegossip"].plan(Problem(PROFILE, full_mesh(nodes, Link(1e6)), 8))


class TestMemory:
    """The chosen node has the memory, if any node has."""

    def problem(self, *models: float | None, samples: int = 0) -> Problem:
        """A data owner, and ever faster nodes with memory for these multiples of the model.

        The first of these nodes holds samples as well.
        """
        size = float(PROFILE.table["param_bytes"].sum())
        others = [
            Node(f"b{at}", flops_per_s=10.0 ** (10 + at), memory_bytes=count and count * size)
            for at, count in enumerate(models)
        ]
        others[0] = replace(others[0], samples=samples)
        cluster = full_mesh([owner(), *others], Link(1e12))
        return Problem(PROFILE, cluster, 8, memory=Needs(100.0 * size))

    def test_unknown_memory_fits(self) -> None:
        problem = self.problem(None, 99.9, 100, 1.9, 2)
        assert [node for node in range(6) if problem.fits(node, 8)] == [0, 1, 3]
        assert [node for node in range(6) if problem.fits(node, 0)] == [0, 1, 2, 3, 5]
        assert replace(problem, memory=None).fits(4, 8)

    @pytest.mark.parametrize(
        ("needed", "chosen"), [((100, 99), 1), ((99, 100), 2), ((None, 99), 1), ((99, 99), 3)]
    )
    def test_samples_go_to_the_fastest_that_fits(
        self, needed: tuple[float, float], chosen: int
    ) -> None:
        problem = self.problem(*needed, 1)
        assert METHODS[SENT].plan(problem).batches == {chosen: 8}

    @pytest.mark.parametrize("method", [SERVED, "fedavg"])
    def test_server_has_the_memory(self, method: str) -> None:
        problem = self.problem(101, 1, 2, 1, samples=100)
        first, *others = problem.cluster.nodes
        first = replace(first, memory_bytes=101.0 * problem.model_bytes)
        problem = replace(problem, cluster=full_mesh([first, *others], Link(1e12)))
        assert METHODS[method].plan(problem).batches == {0: 8, 1: 8, 3: 0}

    def test_worker_that_serves_keeps_both(self) -> None:
        problem = self.problem(102, 101, samples=100)
        assert problem.needed_bytes(8, serves=True) == 102 * problem.model_bytes
        assert [problem.fits(node, 8, serves=True) for node in (1, 2)] == [True, False]


def test_scaled_times_are_an_assumption_of_every_method() -> None:
    times = {"a": TIMES, "b": LayerTimes.from_flops(PROFILE, flops_per_s=1e9, batch_size=8)}
    frame = compare("lenet5", BOTH, 8, times=times).frame
    assumes = frame.filter(pl.col("reason").is_null())["assumes"]
    assert len(assumes) > 3
    assert assumes.str.contains("times of a were measured with batches of 4").all()
    assert not assumes.str.contains("times of b").any()
