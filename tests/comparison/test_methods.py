"""Properties of all methods of training, and the time of each by hand."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, permutations, product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.comparison.clusters import OF_EACH_SYSTEM, clusters, linked
from tests.long import usually
from tests.oracles import comparison as oracle
from workbench.clusters import Cluster, Link, Node, full_mesh, star
from workbench.clusters.cluster import Name
from workbench.comparison import METHODS, Problem, UnusableError
from workbench.comparison.charts import traced
from workbench.comparison.compare import compared
from workbench.comparison.cost import Phase, carried, limit, within_links
from workbench.comparison.methods import EXACT, alone, batches, parameter_server, usable
from workbench.comparison.methods.rounds import GOSGD_PROBABILITY
from workbench.comparison.methods.star import Star
from workbench.dynacomm import PLANNERS, iteration, layer_costs
from workbench.profiles import profile_model
from workbench.runtime import Context, Program, simulate

KEPT = "one node, samples sent once"
STREAMED = "one node, samples sent each epoch"
PROFILE = profile_model("lenet5")
OVERHEADS_S = st.sampled_from([0.0, 0.01])
NEVER_WAIT = ("ako", "ad_psgd", "gosgd")
FEW = [KEPT, STREAMED, "parameter server, dynacomm", "fedavg", "hiertrain", "gossip"]
FEW += ["pipeline, 1f1b", "pipeline, pipedream"]


def pair(bandwidth_bps: float = 1e7, overhead_s: float = 0.0) -> Cluster:
    nodes = [Node("a", flops_per_s=1e9, samples=100), Node("b", flops_per_s=1e10)]
    return full_mesh(nodes, Link(bandwidth_bps, overhead_s=overhead_s))


@pytest.mark.parametrize("name", usually(FEW, METHODS))
@given(cluster=clusters())
@settings(max_examples=20, deadline=None)
def test_no_node_is_busy_for_longer_than_an_iteration_and_links_carry_all_bytes(
    name: str, cluster: Cluster
) -> None:
    problem = Problem(PROFILE, cluster, 8)
    try:
        plan = METHODS[name].plan(problem)
    except UnusableError:
        return
    cost = plan.cost
    assert cost.samples_per_s > 0
    assert 0 <= cost.waiting_share <= 1
    assert limit(problem, cost).share <= 1 + 1e-9 or name in NEVER_WAIT
    assert all(busy <= cost.iteration_s * (1 + 1e-9) for busy in cost.busy_s.values())
    assert set(plan.batches) <= set(range(len(cluster)))
    assert set(plan.learns_from) <= set(problem.owners)
    sent = sum(cost.link_bytes.values())
    assert sum(size for size, _ in carried(problem, cost).values()) >= sent * (1 - 1e-9)


@pytest.mark.parametrize("names", usually([OF_EACH_SYSTEM], [OF_EACH_SYSTEM, [*METHODS]]), ids=len)
@given(cluster=clusters(far=True), random=st.randoms(use_true_random=False))
@settings(max_examples=6, deadline=None)
def test_order_of_nodes_and_links_changes_nothing(
    names: list[str], cluster: Cluster, random: Random
) -> None:
    order = list(range(len(cluster)))
    random.shuffle(order)
    links: dict[tuple[Name, Name], Link] = {
        (cluster.names[a], cluster.names[b]): link for (a, b), link in cluster.links.items()
    }
    other = Cluster([cluster.nodes[node] for node in order], links)
    methods = [METHODS[name] for name in names]
    tables = [compared(Problem(PROFILE, one, 8), methods).frame for one in (cluster, other)]
    assert_frame_equal(*tables, check_row_order=False)


@pytest.mark.parametrize(("method", "bps"), [("one node", 1e6), (STREAMED, 1e9)])
def test_of_equally_fast_nodes_the_one_with_most_samples_learns(method: str, bps: float) -> None:
    nodes = [Node(name, flops_per_s=1e9, samples=n) for name, n in [("a", 10), ("b", 90)]]
    plan = METHODS[method].plan(Problem(PROFILE, full_mesh(nodes, Link(bps)), 8))
    assert list(plan.batches) == [1]


class TestByHand:
    def test_one_node_waits_for_the_samples_or_for_itself(self) -> None:
        for bandwidth_bps in (1e5, 1e7, 1e12):
            problem = Problem(PROFILE, pair(bandwidth_bps=bandwidth_bps), 8)
            sent_s = 8 * 8 * 4 * 28 * 28 / bandwidth_bps
            cost = METHODS[STREAMED].plan(problem).cost
            assert cost.iteration_s == pytest.approx(max(sent_s, problem.batch_s(1)))

    @given(
        links=st.lists(st.tuples(st.sampled_from([5e5, 1e6, 3e6]), OVERHEADS_S), min_size=2),
        shared_bps=st.sampled_from([5e5, 1e6, 3e6]),
    )
    @settings(max_examples=10, deadline=None)
    def test_owners_share_the_interface_of_the_node_that_learns(
        self, links: list[tuple[float, float]], shared_bps: float
    ) -> None:
        links = links[:4]
        nodes = [Node(f"n{at}", flops_per_s=1e3, samples=10) for at in range(len(links))]
        nodes.append(Node("server", flops_per_s=1e15, downlink_bps=shared_bps))
        paths = {(at, len(links)): Link(bps, overhead_s=s) for at, (bps, s) in enumerate(links)}
        problem = Problem(PROFILE, linked(nodes, paths), 8)
        bits = 8 * 8 * 4 * 28 * 28 / len(links)
        transfers = [[(0.0, overhead_s, bits)] for _, overhead_s in links]
        most_bps = [bps for bps, _ in links]
        ends, step_s = oracle.ends_s(transfers, most_bps, shared_bps, steps=2000)
        cost = METHODS[STREAMED].plan(problem).cost
        assert cost.iteration_s == pytest.approx(max(end for (end,) in ends), abs=4 * step_s)

    @pytest.mark.parametrize("bandwidth_bps", [1e5, 1e7, 1e8])
    def test_training_that_keeps_samples(self, bandwidth_bps: float) -> None:
        """A whole training takes what the loops say, and the mean is predicted."""
        problem = Problem(PROFILE, pair(bandwidth_bps, overhead_s=0.001), 8, epochs=4)
        plan = METHODS[KEPT].plan(problem)
        cost, iterations = plan.cost, 4 * 50
        part_s = 0.001 + 8 * 8 * 4 * 28 * 28 / bandwidth_bps
        expected_s = oracle.sent_once_s([(part_s, 50)], problem.batch_s(1), iterations)
        learner = alone.SingleNode(problem, 1, (0,))
        run = simulate(problem.routes.part(learner.nodes), learner.programs(iterations, 50))
        assert run.end_s == pytest.approx(expected_s)
        begin_s = min(
            part_s, problem.batch_s(1)
        )  # the first batch is waited for, whatever it takes
        assert iterations * cost.iteration_s + begin_s == pytest.approx(expected_s)
        assert sum(cost.link_bytes.values()) * iterations == pytest.approx(400 * 4 * 28 * 28)

    def test_timeline_of_samples_sent_once_is_an_iteration_with_and_one_without(self) -> None:
        plan = METHODS[KEPT].plan(Problem(PROFILE, pair(), 8))
        shown = traced({KEPT: plan})
        assert shown["action"].to_list() == ["sending", "computing", "computing"]
        assert shown["start_s"].is_sorted()

    def test_the_longer_a_training_the_faster_the_node_that_keeps_samples(self) -> None:
        """A fast node behind a narrow link is worth it in a long training only."""
        problem = Problem(PROFILE, pair(), 8, epochs=1)
        assert METHODS[KEPT].plan(problem).cost == METHODS[STREAMED].plan(problem).cost
        nodes = [Node("a", flops_per_s=1e9, samples=9000), Node("b", flops_per_s=2e9)]
        nodes += [Node("c", flops_per_s=1e12)]
        cluster = linked(nodes, {(0, 1): Link(1e8), (0, 2): Link(1e6)})
        chosen = [
            list(METHODS[KEPT].plan(Problem(PROFILE, cluster, 8, epochs=n)).batches)
            for n in (1, 10, 100)
        ]
        assert chosen == [[1], [1], [2]]

    def test_all_reduce_is_two_exchanges_of_parts_after_the_slowest(self) -> None:
        nodes = [Node(f"n{at}", flops_per_s=10.0 ** (8 + at)) for at in range(3)]
        problem = Problem(PROFILE, full_mesh(nodes, Link(1e7, overhead_s=0.01)), 8)
        exchange_s = 0.01 + 8 * problem.model_bytes / 3 / 1e7
        cost = METHODS["all-reduce"].plan(problem).cost
        assert cost.iteration_s == pytest.approx(problem.batch_s(0) + 2 * exchange_s)

    def test_federated_round_is_as_long_as_the_slowest_client(self) -> None:
        nodes = [Node(f"n{at}", flops_per_s=10.0 ** (8 + at), samples=10 * at) for at in range(4)]
        cluster = full_mesh(nodes, Link(1e7, overhead_s=0.01))
        problem = Problem(PROFILE, cluster, 8)
        plan = METHODS["fedavg"].plan(problem)
        samples = {1: 10, 2: 20, 3: 30}
        expected = {node: oracle.federated_s(problem, node, samples) for node in range(4)}
        assert plan.cost.iteration_s == pytest.approx(min(expected.values()))
        assert plan.server == min(expected, key=lambda node: expected[node]) == 1
        assert plan.cost.samples == 60


class TestServers:
    """The server is the best of all nodes, and may be a worker as well."""

    @pytest.mark.parametrize("planner", PLANNERS)
    def test_a_single_worker_takes_what_its_plan_takes(self, planner: str) -> None:
        problem = Problem(PROFILE, pair(overhead_s=0.001), 8)
        costs = layer_costs(PROFILE, problem.layer_times(0), problem.cluster.link(0, 1))
        expected = iteration(costs, PLANNERS[planner](costs)).total_s
        cost = METHODS[f"parameter server, {planner}"].plan(problem).cost
        assert cost.iteration_s == pytest.approx(expected)

    @pytest.mark.parametrize("method", ["parameter server, sequential", "fedavg"])
    def test_laptop_with_most_samples_serves_and_learns(self, method: str) -> None:
        laptop = Node("laptop", flops_per_s=1e10, samples=1000)
        phones = [Node(f"phone{at}", flops_per_s=1e10, samples=100) for at in range(2)]
        problem = Problem(PROFILE, star([laptop], phones, Link(1e7)), 8)
        plan = METHODS[method].plan(problem)
        assert plan.server == 0
        assert sorted(plan.learns_from) == [0, 1, 2]
        assert set(plan.cost.link_bytes) == {(0, 1), (1, 0), (0, 2), (2, 0)}
        assert plan.where == "server on laptop, a worker as well"

    @pytest.mark.parametrize("name", ["sequential", "dynacomm", "layer_by_layer"])
    @given(cluster=clusters())
    @settings(max_examples=15, deadline=None)
    def test_no_other_server_is_faster(self, name: str, cluster: Cluster) -> None:
        problem = Problem(PROFILE, cluster, 8)
        stars = [Star(problem, node, batches.equal(problem)) for node in range(len(cluster))]
        rates = [
            within_links(problem, parameter_server.with_server(star, name).cost).samples_per_s
            for star in stars
            if star.remote
        ]
        found = METHODS[f"parameter server, {name}"].plan(problem).cost
        assert found.samples_per_s == pytest.approx(max(rates))

    def test_requests_keep_no_link_busy(self) -> None:
        problem = Problem(PROFILE, pair(1e8, overhead_s=0.02), 8)
        plan = METHODS["parameter server, layer_by_layer"].plan(problem)
        assert plan.cost.messages == {(0, 1): 5, (1, 0): 5}

    def test_a_server_needs_a_worker_on_another_node(self) -> None:
        problem = Problem(PROFILE, pair(), 8)
        assert METHODS["parameter server, sequential"].plan(problem).server == 1
        alone = Problem(PROFILE, Cluster(pair().nodes[:1]), 8)
        with pytest.raises(UnusableError, match="second node"):
            METHODS["parameter server, sequential"].plan(alone)


class TestBatches:
    """Batches of unequal workers."""

    @given(
        speeds=st.lists(st.sampled_from([1e9, 2e9, 3e9, 5e10]), min_size=2, max_size=3),
        batch_size=st.integers(1, 4),
    )
    @settings(max_examples=30, deadline=None)
    def test_no_other_division_is_faster(self, speeds: list[float], batch_size: int) -> None:
        nodes = [Node(f"n{at}", flops_per_s=flops) for at, flops in enumerate(speeds)]
        problem = Problem(PROFILE, full_mesh(nodes, Link(1e7)), batch_size)
        total = batch_size * len(speeds)
        longest = [
            max(count * seconds for count, seconds in zip(counts, problem.sample_s, strict=True))
            for counts in product(range(1, total + 1), repeat=len(speeds))
            if sum(counts) == total
        ]
        try:
            found = batches.by_speed(problem)
        except UnusableError:
            found = batches.equal(problem)
        assert sum(found.values()) == total
        assert min(found.values()) >= 1
        slowest_s = max(count * problem.sample_s[node] for node, count in found.items())
        assert slowest_s == pytest.approx(min(longest))

    @pytest.mark.parametrize("method", ["all-reduce", "parameter server"])
    def test_a_node_of_three_times_the_speed_learns_from_three_times_as_many(
        self, method: str
    ) -> None:
        nodes = [Node(f"n{at}", flops_per_s=flops) for at, flops in enumerate([1e8, 3e8])]
        problem = Problem(PROFILE, full_mesh(nodes, Link(1e9)), 8)
        plan = METHODS[f"{method}, batches by speed"].plan(problem)
        plain = METHODS["all-reduce" if method == "all-reduce" else f"{method}, dynacomm"].plan(
            problem
        )
        assert plan.batches == {0: 4, 1: 12}
        often = "each sample on n1 is used 3 times as often as one on n0"
        assert plan.assumes[-1] == often
        assert plan.cost.samples == plain.cost.samples
        assert plan.cost.iteration_s == pytest.approx(plain.cost.iteration_s / 2, rel=0.02)

    def test_equal_batches_of_unequal_shards_are_an_assumption(self) -> None:
        nodes = [Node(f"n{at}", flops_per_s=1e9, samples=100 * at) for at in (1, 4)]
        problem = Problem(PROFILE, full_mesh(nodes, Link(1e7)), 8)
        said = "each sample on n1 is used 4 times as often as one on n4"
        assert METHODS["all-reduce"].plan(problem).assumes == (said,)
        with pytest.raises(UnusableError, match="equally fast"):
            METHODS["all-reduce, batches by speed"].plan(problem)
        assert METHODS["baseline"].plan(problem).assumes[0] == said

    @pytest.mark.parametrize("method", ["ako", "gosgd"])
    def test_peers_that_never_wait_use_samples_by_their_speed(self, method: str) -> None:
        nodes = [Node(f"n{at}", flops_per_s=at * 1e8, samples=100) for at in (1, 4)]
        plan = METHODS[method].plan(Problem(PROFILE, full_mesh(nodes, Link(1e9)), 8))
        assert plan.assumes[0].startswith("each sample on n4 is used 4 times as often")
        equal = [replace(node, flops_per_s=1e8) for node in nodes]
        alike = METHODS[method].plan(Problem(PROFILE, full_mesh(equal, Link(1e9)), 8))
        assert not any("as often" in phrase for phrase in alike.assumes)


def test_path_through_a_router_is_as_narrow_as_its_narrowest_link() -> None:
    nodes = [Node(name, flops_per_s=1e9) for name in "abc"]
    near, far = Link(1e7, overhead_s=0.01), Link(1e6, overhead_s=0.02, latency_s=0.1)
    problem = Problem(PROFILE, linked(nodes, {(0, 1): near, (1, 2): far}), 8)
    method = problem.routes.link(0, 2)
    assert (method.bandwidth, method.overhead_s, method.latency_s) == (1e6, 0.03, 0.1)
    assert problem.routes.paths[0, 2] == (0, 1, 2)
    interface = problem.routes.nodes[2].uplink
    assert interface is not None
    assert interface.at(0.0) == 1e6
    assert problem.routes.nodes[1].uplink is None
    assert not any(link.shared for link in problem.routes.part(range(3)).links.values())


@pytest.mark.parametrize(
    ("name", "turns"),
    [("all-reduce", 1), ("gossip", 1), (STREAMED, 1), ("parameter server, dynacomm", 2)],
)
def test_messages_share_a_link_inside_the_network(name: str, turns: int) -> None:
    """Two offices of two nodes, a link between them; a server is pulled from, then pushed to."""
    nodes = [Node(f"n{at}", flops_per_s=1e12, samples=64) for at in range(4)]
    nodes += [Node("left", flops_per_s=1e6), Node("right", flops_per_s=1e6)]
    links: dict[tuple[Name, Name], Link] = {
        (f"n{at}", ("left", "right")[at % 2]): Link(1e9) for at in range(4)
    }
    problem = Problem(PROFILE, linked(nodes, links | {("left", "right"): Link(1e6)}), 8)
    routed = problem.routes.part(range(6)).links
    assert routed[0, 1].shared == routed[2, 3].shared == routed[4, 5].shared != routed[1, 0].shared
    assert routed[0, 2].shared == routed[4, 0].shared == ()
    cost = METHODS[name].plan(problem).cost
    sent = max(size for hop, (size, _) in carried(problem, cost).items() if hop in {(4, 5), (5, 4)})
    assert cost.iteration_s == pytest.approx(turns * 8 * sent / 1e6, rel=0.02)


@given(cluster=clusters())
@settings(max_examples=50, deadline=None)
def test_messages_that_pass_a_link_share_its_capacity(cluster: Cluster) -> None:
    problem = Problem(PROFILE, cluster, 8)
    part = problem.routes.part(range(len(cluster)))
    for one, two in combinations(part.links, 2):
        if {*pairwise(problem.routes.paths[one])} & {*pairwise(problem.routes.paths[two])}:
            assert (
                (one[0] == two[0] and part.nodes[one[0]].uplink)
                or (one[1] == two[1] and part.nodes[one[1]].downlink)
                or {*part.links[one].shared} & {*part.links[two].shared}
            )


def test_measured_times_take_the_place_of_speed() -> None:
    cluster = pair()
    by_speed = Problem(PROFILE, cluster, 8)
    times = {"a": by_speed.layer_times(1, 4)}
    problem = Problem(PROFILE, cluster, 8, times)
    assert problem.batch_s(0) == pytest.approx(by_speed.batch_s(1))
    assert math.isclose(problem.sample_s[0], by_speed.sample_s[1])


def test_gosgd_learns_as_fast_as_its_nodes_and_sends_by_its_probability() -> None:
    nodes = [Node(name, flops_per_s=1e9 * (at + 1)) for at, name in enumerate("abc")]
    problem = Problem(PROFILE, full_mesh(nodes, Link(1e7)), 8)
    cost = METHODS["gosgd"].plan(problem).cost
    alone = sum(8 / problem.batch_s(node) for node in range(3))
    assert cost.samples_per_s == pytest.approx(alone, rel=0.01)
    sent = sum(cost.link_bytes.values()) / problem.model_bytes / (cost.samples / 8)
    assert sent == pytest.approx(GOSGD_PROBABILITY, rel=0.3)


@pytest.mark.parametrize("nodes", [2, 3, 6])
@pytest.mark.parametrize("name", ["diloco", "local_sgd"])
def test_rounds_of_averages_are_charged_what_an_all_reduce_sends(name: str, nodes: int) -> None:
    alike = [Node(f"node{at}", flops_per_s=1e9) for at in range(nodes)]
    problem = Problem(PROFILE, full_mesh(alike, Link(1e7)), 8)
    sent = sum(METHODS[name].plan(problem).cost.link_bytes.values()) / problem.model_bytes
    assert 50 * sent / nodes == pytest.approx(2 * (nodes - 1) / nodes, rel=1e-3)


def test_computing_of_any_kind_is_not_waiting() -> None:
    def programs(rounds: int) -> list[Program]:
        async def works(context: Context) -> None:
            for _ in range(rounds):
                await context.compute(int, cost_s=2.0, lane=lanes[context.node])
                await context.sleep(1.0)

        return [works] * len(lanes)

    lanes = ["learn", "step", "plan", "scan", "select", "to node0"]
    found = Phase(full_mesh(len(lanes), Link(1e7)), range(len(lanes)), programs, 1).cost()
    assert found.busy_s == pytest.approx(dict.fromkeys(range(len(lanes)), 2.0))
    assert found.waiting_share == pytest.approx(1 / 3)


def phones(count: int) -> Cluster:
    """Equal phones around an edge server."""
    nodes = [Node(f"phone{at}", flops_per_s=5e9, samples=50) for at in range(count)]
    return star(nodes, [Node("edge", flops_per_s=2e11)], Link(2e7))


class TestManyNodes:
    @pytest.mark.parametrize(
        ("cluster", "names"),
        [
            (phones(5), ["edge", "phone0"]),
            (full_mesh([Node(name, flops_per_s=1e9) for name in "abc"], Link(1e6)), ["a"]),
            (
                full_mesh(
                    [Node(n, flops_per_s=1e9, samples=int(n == "b")) for n in "abc"], Link(1e6)
                ),
                "ab",
            ),
            (
                linked(
                    [Node(n, flops_per_s=1e9) for n in "abc"],
                    {(0, 1): Link(1e6), (1, 2): Link(2e6)},
                ),
                "abc",
            ),
            (
                Cluster(
                    [Node(n, flops_per_s=1e9, samples="ab".find(n) + 1) for n in "pqab"],
                    dict.fromkeys([(0, 1), (1, 0), (0, 2), (3, 0), (1, 3), (2, 1)], Link(1e6)),
                ),
                "abpq",
            ),
        ],
        ids=["star", "mesh", "a node with samples", "unequal links", "links of one kind"],
    )
    def test_nodes_that_differ_in_name_alone_are_tried_once(
        self, cluster: Cluster, names: list[str]
    ) -> None:
        problem = Problem(PROFILE, cluster)
        assert [cluster.names[node] for node in problem.unlike] == [*names]

    @pytest.mark.parametrize(
        "about",
        [
            {"memory_bytes": 1e9},
            {"price_per_hour": 0.0},
            {"watts": 5.0},
            {"speed": [(0, 1), (9, 0.5)]},
            {"uplink_bps": 1e6},
            {"samples": 7},
        ],
        ids=str,
    )
    def test_node_that_differs_in_anything_else_is_tried(self, about: dict[str, Any]) -> None:
        nodes = [Node(name, flops_per_s=1e9, samples=5) for name in "abcd"]
        nodes[2] = replace(nodes[2], **about)
        assert Problem(PROFILE, full_mesh(nodes, Link(1e6))).unlike == (0, 2)

    @pytest.mark.parametrize("name", [KEPT, STREAMED, "one node", "fedavg", FEW[2]])
    @given(cluster=clusters(far=True))
    @settings(max_examples=20, deadline=None)
    def test_best_node_is_the_best_of_all(self, name: str, cluster: Cluster) -> None:
        problem, every = Problem(PROFILE, cluster, 8), Problem(PROFILE, cluster, 8)
        vars(every)["first_alike"] = {node: node for node in every.by_name}
        try:
            wanted = METHODS[name].plan(every)
        except UnusableError:
            return
        found = METHODS[name].plan(problem)
        assert (found.cost, found.where) == (wanted.cost, wanted.where)

    @pytest.mark.parametrize("name", [KEPT, STREAMED, "one node"])
    def test_candidates_do_not_grow_with_equal_nodes(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried = list[int]()
        made = alone.SingleNode

        def learner(problem: Problem, node: int, owners: Collection[int]) -> alone.SingleNode:
            tried.append(node)
            return made(problem, node, owners)

        monkeypatch.setattr(alone, "SingleNode", learner)
        for count in (3, 30):
            METHODS[name].plan(Problem(PROFILE, phones(count)))
        assert 2 <= len(tried) <= 6

    @pytest.mark.parametrize(("name", "most"), [("baseline", 32), ("all-reduce", 100)])
    def test_methods_that_send_to_all_others_are_compared_up_to_a_number_of_nodes(
        self, name: str, most: int
    ) -> None:
        with pytest.raises(UnusableError, match=f"{most + 1} nodes hold samples.* {most}"):
            METHODS[name].plan(Problem(PROFILE, phones(most + 1)))


@pytest.mark.parametrize("name", usually(FEW, METHODS))
def test_rates_grow_in_proportion_to_speeds_and_bandwidths(name: str) -> None:
    """Samples a second grow as speeds and bandwidths do, if overheads and latencies shrink so."""

    def rate(factor: float) -> float:
        link = Link(factor * 1e8, overhead_s=0.001 / factor, latency_s=0.005 / factor)
        flops = {"p": 1e10, "q": 2e10, "r": 5e10, "edge": 1e12}
        nodes = [
            Node(each, flops_per_s=factor * one, samples=64 * (each != "edge"))
            for each, one in flops.items()
        ]
        return METHODS[name].plan(Problem(PROFILE, full_mesh(nodes, link), 8)).cost.samples_per_s

    factors = (0.1, 10.0, 1000.0)
    grown = [rate(faster) / faster for faster in factors]
    assert grown == pytest.approx([rate(1.0)] * len(factors), rel=1e-6)


@pytest.mark.parametrize("name", usually(FEW, METHODS))
def test_names_and_order_of_equal_nodes_change_nothing(name: str) -> None:
    def rate(names: Sequence[str], order: Sequence[int]) -> float:
        nodes = [Node(each, flops_per_s=1e10, samples=64) for each in names[:3]]
        nodes.append(Node(names[3], flops_per_s=1e11))
        links = dict.fromkeys([(one, names[3]) for one in names[:3]], Link(1e7, latency_s=0.01))
        cluster = linked([nodes[at] for at in order], links)
        try:
            return METHODS[name].plan(Problem(PROFILE, cluster, 8)).cost.samples_per_s
        except UnusableError:
            return 0.0

    others = ("zyxw", "bcda", ["a10", "a9", "a1", "edge"])
    renamed = [rate(names, (3, 1, 0, 2)) for names in others]
    assert renamed == pytest.approx([rate("abcd", range(4))] * len(others), rel=1e-6)


def test_roles_are_written_by_equal_signs() -> None:
    nodes = [Node("phone", flops_per_s=1e9, samples=9), Node("edge", flops_per_s=1e10)]
    cluster = full_mesh([*nodes, Node("cloud", flops_per_s=1e12)], Link(1e8))
    where = METHODS["all_cloud"].plan(Problem(PROFILE, cluster)).where
    assert where == "device = phone, edge = edge, cloud = cloud"


@pytest.mark.parametrize("nodes", [2, 3])
@pytest.mark.parametrize(
    ("name", "every"),
    [("baseline", 1), ("choco_sgd", 1), ("diloco", 2 / 50), ("local_sgd", 2 / 50)],
)
def test_overheads_are_charged_of_the_messages_that_peers_send(
    name: str, every: float, nodes: int
) -> None:
    """In an all-reduce two a round: a share of the own model, and the mean of a share."""
    alike = [Node(f"node{at}", flops_per_s=1e9) for at in range(nodes)]
    problem = Problem(PROFILE, full_mesh(alike, Link(1e7, overhead_s=0.005)), 8)
    messages = METHODS[name].plan(problem).cost.messages
    assert messages == pytest.approx(dict.fromkeys(permutations(range(nodes), 2), every), rel=1e-3)


@pytest.mark.parametrize("seed", usually([1, 11], range(20)))
def test_more_bandwidth_makes_no_method_slower(seed: int) -> None:
    """Of all methods that equal SGD; what a planner minimises is what its programs take."""
    rng = np.random.default_rng(seed)
    nodes = [
        Node(f"n{at}", flops_per_s=float(10 ** rng.uniform(9, 11)), samples=int(100 * (at < 3)))
        for at in range(5)
    ]
    links = {
        (f"n{at}", f"n{rng.integers(at)}"): Link(
            float(10 ** rng.uniform(6, 8)), overhead_s=float(10 ** rng.uniform(-4, -2))
        )
        for at in range(1, 5)
    }
    rates = dict[str, float]()
    for factor in (1.0, 2.0, 8.0):
        wider = {
            ends: replace(link, bandwidth_bps=factor * float(link.bandwidth))  # type: ignore[arg-type]
            for ends, link in links.items()
        }
        found = usable(Problem(PROFILE, linked(nodes, wider), 16), EXACT)
        for name, plan in found.items():
            rate = plan.cost.samples_per_s
            assert rate >= rates.get(name, 0.0) * (1 - 1e-3), (name, factor)
            rates[name] = rate
    assert len(rates) > 8
