"""Which links an arbiter times, and what happens without it."""

from __future__ import annotations

import threading
import time
from itertools import combinations, permutations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.programs import LINK, SIZE, receives, sends
from workbench.clusters import Cluster, Link, Node, SharedCapacity
from workbench.clusters.cluster import Name
from workbench.runtime import Message, simulate
from workbench.runtime.measured.arbiter import GONE, Arbiter, join_arbiter
from workbench.runtime.measured.capacity import Pair, arbitrated, without_roomy_interfaces
from workbench.runtime.measured.connection import Caller, new_token
from workbench.runtime.measured.network import Network
from workbench.runtime.measured.records import Place

CAPS = st.sampled_from([None, 1e6])


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = [
        Node(f"n{index}", uplink_bps=draw(CAPS), downlink_bps=draw(CAPS))
        for index in range(draw(st.integers(2, 5)))
    ]
    pairs = list(permutations(range(len(nodes)), 2))
    shared = st.lists(st.sampled_from([SharedCapacity(1e6), SharedCapacity(1e6)]), max_size=1)
    links: dict[tuple[Name, Name], Link] = {
        pair: Link(1e6, shared=tuple(draw(shared)))
        for pair in draw(st.sets(st.sampled_from(pairs)))
    }
    return Cluster(nodes, links)


@given(clusters())
def test_all_links_that_depend_on_what_several_nodes_share(cluster: Cluster) -> None:
    shared = nx.Graph()
    shared.add_nodes_from(cluster.links)
    by_several: set[Pair] = set()
    for one, two in combinations(cluster.links, 2):
        common = {*cluster.links[one].shared} & {*cluster.links[two].shared}
        if common or (one[1] == two[1] and cluster.nodes[one[1]].downlink is not None):
            shared.add_edge(one, two)
            if one[0] != two[0]:
                by_several |= {one, two}
        if one[0] == two[0] and cluster.nodes[one[0]].uplink is not None:
            shared.add_edge(one, two)
    parts = [part for part in nx.connected_components(shared) if part & by_several]
    assert arbitrated(cluster) == set().union(*parts)


def test_caps_that_cannot_bind_are_left_out() -> None:
    nodes = [Node("a", uplink_bps=9e6), Node("b", uplink_bps=1e6), Node("c", downlink_bps=16e6)]
    links: dict[tuple[Name, Name], Link] = {(0, 2): LINK, (1, 2): LINK}
    cluster = Cluster(nodes, links)
    without = without_roomy_interfaces(cluster)
    assert [node.uplink is None for node in without.nodes] == [True, False, True]
    assert arbitrated(cluster) == set(cluster.links)
    assert arbitrated(without) == set()
    programs = [sends(1, to=2), sends(1, to=2), receives(2)]
    assert simulate(without, programs).results == simulate(cluster, programs).results


def test_a_node_whose_arbiter_is_gone_says_so() -> None:
    nodes = [Node("a"), Node("b"), Node("c", downlink_bps=8e6)]
    links: dict[tuple[Name, Name], Link] = {(0, 2): LINK, (1, 2): LINK}
    cluster, token = Cluster(nodes, links), new_token()
    arbiter = Arbiter(Place(cluster, 0, 0, 0, (), False, False, 1e9, token, "127.0.0.1"))
    network = Network(cluster, 0, arbiter.clock, seed=0, faults=(), sent=lambda _: None)
    join_arbiter(network, arbiter.listener.address, Caller(0, 0), token)
    running = threading.Thread(target=arbiter.run, args=(time.monotonic(),))
    running.start()
    network.start()
    network.links[2].send(Message(0, "x", None, SIZE / 100))
    while not network.idle:
        time.sleep(0.01)
    assert [link.use.messages for link in network.links.values()] == [1]
    arbiter.end()
    running.join()
    while network.failure is None:
        time.sleep(0.01)
    assert str(network.failure) == GONE
