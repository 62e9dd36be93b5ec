"""Every way of training, by the same properties; and each against its time by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.comparison.clusters import clusters
from tests.long import usually
from tests.oracles import comparison as oracle
from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.comparison import WAYS, Question, UnusableError
from workbench.comparison.use import carried, limit
from workbench.profiles import profile_model

PROFILE = profile_model("lenet5")
FEW = ["one node, all samples sent there", "parameter server, dynacomm", "hiertrain", "gossip"]
# Means of few rounds against those of more, where no round is like the one before.
ESTIMATED = {"max10", "dlion", "gaia", "hop", "noloco", "moshpit_sgd", "ad_psgd"}
# Whose own cost model knows one delay, and messages that never wait for each other.
ESTIMATED |= {"olpb", "bppsa"}

UNEQUAL = [(2e10, 1), (1e09, 1000), (1e09, 0), (1e09, 1), (1e10, 100)]
BETWEEN = {
    (1, 0): Link(1e09, overhead_s=0.02),
    (2, 0): Link(1e09, overhead_s=0.02),
    (3, 0): Link(1e09, overhead_s=0.0),
    (4, 1): Link(1e07, overhead_s=0.001),
}


def pair(bandwidth_bps: float = 1e7, overhead_s: float = 0.0) -> Cluster:
    nodes = [Node("a", flops_per_s=1e9, samples=100), Node("b", flops_per_s=1e10)]
    return full_mesh(nodes, Link(bandwidth_bps, overhead_s=overhead_s))


@pytest.mark.parametrize("name", usually(FEW, WAYS))
@given(cluster=clusters())
@settings(max_examples=20, deadline=None)
def test_simulation_takes_as_long_as_predicted(name: str, cluster: Cluster) -> None:
    question = Question(PROFILE, cluster, 8)
    try:
        option = WAYS[name].find(question)
    except UnusableError:
        return
    rate = option.simulate().samples_per_s
    if name in ESTIMATED:
        return
    # A parameter server's cost model gives each worker an equal part of what all share.
    off = 0.25 if "server" in name else 0.01
    assert option.use.samples_per_s == pytest.approx(rate, rel=off)


@pytest.mark.parametrize("name", usually(FEW, WAYS))
@given(cluster=clusters())
@settings(max_examples=20, deadline=None)
def test_nobody_is_busier_than_all_the_time(name: str, cluster: Cluster) -> None:
    question = Question(PROFILE, cluster, 8)
    try:
        option = WAYS[name].find(question)
    except UnusableError:
        return
    use = option.use
    assert use.samples_per_s > 0
    assert 0 <= use.waiting_share <= 1
    assert limit(question, use).share <= 1 + 1e-9 or not WAYS[name].waits
    assert all(busy <= use.iteration_s * (1 + 1e-9) for busy in use.busy_s.values())
    assert set(option.batches) <= set(range(len(cluster)))
    assert set(option.learns_from) <= set(question.holders)
    sent = sum(use.link_bytes.values())
    assert sum(size for size, _ in carried(question, use).values()) >= sent * (1 - 1e-9)


class TestByHand:
    def test_one_node_waits_for_the_samples_or_for_itself(self) -> None:
        for bandwidth_bps in (1e5, 1e7, 1e12):
            question = Question(PROFILE, pair(bandwidth_bps=bandwidth_bps), 8)
            sent_s = 8 * 8 * 4 * 28 * 28 / bandwidth_bps
            use = WAYS["one node, all samples sent there"].find(question).use
            assert use.iteration_s == pytest.approx(max(sent_s, question.batch_s(1)))

    @pytest.mark.parametrize("overhead_s", [0.0, 0.01])
    def test_sequential_parameter_server(self, overhead_s: float) -> None:
        question = Question(PROFILE, pair(overhead_s=overhead_s), 8)
        use = WAYS["parameter server, sequential"].find(question).use
        assert use.iteration_s == pytest.approx(oracle.sequential_s(question, 0, 1))

    def test_federated_round_is_as_long_as_the_slowest_client(self) -> None:
        nodes = [Node(f"n{at}", flops_per_s=10.0 ** (8 + at), samples=10 * at) for at in range(4)]
        cluster = full_mesh(nodes, Link(1e7, overhead_s=0.01))
        question = Question(PROFILE, cluster, 8)
        use = WAYS["fedavg"].find(question).use
        samples = {1: 10, 2: 20, 3: 30}
        assert use.iteration_s == pytest.approx(oracle.federated_s(question, 0, samples))
        assert use.samples == 60


def test_all_reduce_of_unequal_nodes_is_that_of_its_later_iterations() -> None:
    """Nodes get out of step for some iterations, each of which takes longer than the one before."""
    nodes = [
        Node(f"n{at}", flops_per_s=flops_per_s, samples=samples)
        for at, (flops_per_s, samples) in enumerate(UNEQUAL)
    ]
    links = {}
    for (a, b), link in BETWEEN.items():
        links[a, b] = links[b, a] = link
    option = WAYS["all-reduce"].find(Question(PROFILE, Cluster(nodes, links), 8))  # type: ignore[arg-type]
    assert option.dry is not None
    late = replace(option.dry, first=20, last=30).use()
    early = replace(option.dry, first=1, last=3).use()
    assert option.use.iteration_s == pytest.approx(late.iteration_s, rel=1e-6)
    assert early.iteration_s < 0.95 * late.iteration_s


def test_way_through_a_router_is_as_narrow_as_its_narrowest_link() -> None:
    nodes = [Node(name, flops_per_s=1e9) for name in "abc"]
    near, far = Link(1e7, overhead_s=0.01), Link(1e6, overhead_s=0.02, latency_s=0.1)
    links = {(0, 1): near, (1, 0): near, (1, 2): far, (2, 1): far}
    question = Question(PROFILE, Cluster(nodes, links), 8)  # type: ignore[arg-type]
    way = question.routed.link("a", "c")
    assert (way.bandwidth, way.overhead_s, way.latency_s) == (1e6, 0.03, 0.1)
    assert question.paths[0, 2] == (0, 1, 2)
    interface = question.routed.nodes[2].uplink
    assert interface is not None
    assert interface.at(0.0) == 1e6
    assert question.routed.nodes[1].uplink is None


def test_measured_times_take_the_place_of_speed() -> None:
    cluster = pair()
    by_speed = Question(PROFILE, cluster, 8)
    times = {"a": by_speed.layer_times(1, 4)}
    question = Question(PROFILE, cluster, 8, times)
    assert question.batch_s(0) == pytest.approx(by_speed.batch_s(1))
    assert math.isclose(question.sample_s[0], by_speed.sample_s[1])
