from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.refusals import refusals
from workbench.clusters import (
    Cluster,
    Link,
    MissingLinkError,
    Node,
    Schedule,
    SharedCapacity,
    UnknownNodeError,
    full_mesh,
    graph,
    load_testbed,
    star,
)
from workbench.utils.checks import UnknownNameError, UserError

LINK = Link(8e6)


def test_links_are_found_by_index_and_by_name() -> None:
    back = Link(1e6)
    cluster = Cluster([Node("a"), Node("b")], {("b", "a"): back, (0, "b"): LINK})
    assert cluster.links == {(0, 1): LINK, (1, 0): back}
    assert cluster.link("a", 1) is LINK
    assert cluster.targets(0) == cluster.targets("a") == (1,)


def test_a_missing_link_tells_where_links_lead() -> None:
    cluster = star(2, 1, LINK)
    with pytest.raises(
        MissingLinkError, match=r"from worker0 to worker1; links lead from worker0 to: server0"
    ):
        cluster.link(0, 1)
    with pytest.raises(MissingLinkError, match="nowhere"):
        Cluster([Node("a"), Node("b")]).link(0, 1)


@pytest.mark.parametrize("node", [3, -1, "worker7", True, 1.5, 1.0, None])
def test_unknown_nodes_are_told(node: Any) -> None:
    with pytest.raises(UnknownNodeError, match="worker0, worker1, server0"):
        star(2, 1, LINK).link(0, node)


PAIR = [Node("a"), Node("b")]

test_cluster_refused = refusals(
    Cluster,
    {"nodes": PAIR},
    {
        "nodes": {
            "at least one node": [[]],
            "two nodes are called 'a'": [[Node("a"), Node("a")]],
            "nodes is .*; give a list": [Node("a"), "ab", 3],
            "node 1 is 'b'; give a Node": [[Node("a"), "b"]],
            "nodes is .*, where order counts; give a list": [{Node("a")}],
        },
        "links": {
            "from a to itself": [{(0, 0): LINK}],
            "unknown node": [{(0, "c"): LINK}, {(0, 0.5): LINK}],
            "two links lead from a to b": [{(0, 1): LINK, ("a", "b"): LINK}],
            "the link from a to b is 8000000.0; give a Link": [{(0, 1): 8e6}],
            "map pairs of nodes to links": [[LINK]],
            "'ab' is not a pair of nodes": [{"ab": LINK}],
        },
    },
)
test_node_refused = refusals(
    Node,
    {"name": "a"},
    {
        "name": {"a node's name is .*; give a text of a single line": [3, "", "a\nb"]},
        "cores": {"cores of a is .*; it must be": [0, 1.5, 10**13]},
        "samples": {"samples of a is .*; it must be": [-1]},
        "bytes_per_s": {"bytes_per_s of a is": [0, math.inf, "fast"]},
        "overhead_s": {"overhead_s of a is": [-1, math.inf]},
        "flops_per_s": {"flops_per_s of a is .* it must be from 1e-09 to 1e.24": [0, math.inf]},
        "memory_bytes": {"memory_bytes of a is .* it must be from 1 to 1e.18": [0]},
        "watts": {"watts of a is .*; it must be from 1e-09 to 1e.09": [0, math.nan]},
        "price_per_hour": {"price_per_hour of a is .* it must be from 0 to 1e.09": [-1]},
        "speed": {
            "speed of a: .* not a schedule": ["2"],
            "speed of a: the": [0, math.nan, 1e300, 1e-300],
        },
        "uplink_bps": {"uplink_bps of a: the schedule is -1.0": [-1]},
        "downlink_bps": {"downlink_bps of a: the schedule has 0 starts": [[]]},
    },
)
test_star_refused = refusals(
    star,
    {"workers": 2, "servers": 1, "up": LINK},
    {
        "workers": {
            "number of workers is -1": [-1],
            "0 workers and 1 servers; give at least one of each": [0, []],
        },
        "servers": {"2 workers and 0 servers": [0]},
        "up": {"the link from worker0 to server0 is 8000000.0; give a Link": [8e6]},
    },
)
test_graph_refused = refusals(
    graph,
    {"nodes": 3, "pairs": [(0, 1)], "link": LINK},
    {
        "nodes": {"nodes is 2.0; give a list": [2.0]},
        "pairs": {
            r"pairs is .*; give pairs of nodes, such as \[\(0, 1\)": [
                *([0, 1], [(0, 1, 2)], [(0, [1])], {0: 1}, "ab", None)
            ],
        },
        "link": {"the link from node0 to node1 is .*; give a Link": [8e6, None]},
    },
)


def test_numpys_whole_numbers_are_indices_and_counts() -> None:
    nodes = [Node("a"), Node("b", cores=np.int64(4))]  # type: ignore[arg-type]
    cluster = Cluster(nodes, {(np.int64(0), np.uint8(1)): LINK})  # type: ignore[dict-item]
    assert cluster.links == {(0, 1): LINK}
    assert [type(end) for pair in cluster.links for end in pair] == [int, int]
    assert cluster.link(np.int32(0), 1) is LINK  # type: ignore[arg-type]
    assert len(star(np.int64(2), 1, LINK)) == 3  # type: ignore[arg-type]


def test_unlimited_interfaces() -> None:
    assert Node("a").uplink is Node("a", uplink_bps=math.inf).uplink is None
    assert Node("a", uplink_bps=[(0, 5)]).uplink == Schedule.of(5)


def test_pairs_of_a_graph_need_no_order() -> None:
    chain = graph(3, [(0, 1), (1, 2)], LINK)
    for pairs in ({(1, 2), (1, 0)}, np.array([[0, 1], [1, 2]]), nx.path_graph(3).edges):
        assert graph(3, pairs, LINK) == chain


def test_shapes() -> None:
    down = Link(2e6)
    shape = star(2, [Node("hub")], LINK, down)
    assert shape.names == ("worker0", "worker1", "hub")
    assert shape.links == {(0, 2): LINK, (1, 2): LINK, (2, 0): down, (2, 1): down}
    assert list(full_mesh(3, LINK).links) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert list(graph(3, [(0, 1), (2, 1)], LINK).links) == [(0, 1), (1, 0), (1, 2), (2, 1)]


def test_shows_its_nodes_and_links() -> None:
    cluster = star([Node("pi", cores=4, speed=0.5, uplink_bps=5e6)], 1, LINK)
    assert str(cluster).splitlines() == [
        "2 nodes, 2 links",
        "  0: pi, 4 cores, speed 0.5, up 5 Mbit/s",
        "  1: server0, speed 1",
        "  8 Mbit/s, 0 ms a transmission: pi>server0, server0>pi",
    ]


def test_transfer_by_hand() -> None:
    """Tensors below the bound get a share of the bandwidth; the overhead is apart."""
    link = Link(8e6, overhead_s=0.5, tensor_s=0.25, split_bytes=1_000_000, whole_share=0.5)
    assert link.transfer_s([1_000_000, 1_500_000]) == 2.5 + 2 * 0.25
    assert link.transfer_s([999_999]) == pytest.approx(2 * 0.999999 + 0.25)
    assert link.transfer_s([]) == 0


@pytest.mark.parametrize("size", [5, 5.0, "5", None, np.float64(5), {5}])
def test_single_size_of_a_tensor_is_refused(size: Any) -> None:
    with pytest.raises(UserError, match=r"tensor_bytes is .*; give the size of each"):
        LINK.transfer_s(size)


def test_bandwidth_over_time_is_given_as_pairs_or_as_a_schedule() -> None:
    pairs = [(0, 8e6), (2, 16e6)]
    link = Link(pairs, tensor_s=0.25, latency_s=0.1)
    assert link == replace(link, bandwidth_bps=Schedule.of(pairs))
    assert hash(link) == hash(replace(link, bandwidth_bps=Schedule.of(pairs)))
    assert link.transfer_s([1_000_000]) == 0.25 + 1
    assert link.transfer_s([1_000_000], start_s=1.25) == 0.25 + 0.5 + 0.25
    assert str(link) == "8 to 16 Mbit/s in 2 steps over 2 s, 0 ms a transmission, 100 ms latency"


test_link_refused = refusals(
    Link,
    {"bandwidth_bps": 1e6},
    {
        "bandwidth_bps": {
            "it must be from 1e-12 to 1e.18, or infinite": [0, -1, math.nan, 1e300],
            "bandwidth_bps: .* not a schedule": ["1e6", None],
            "bandwidth_bps is True; give a number": [True],
            "bandwidth_bps has more digits than a float holds": [10**400],
        },
        "overhead_s": {"overhead_s is": [-0.1, math.inf, "0.1"]},
        "tensor_s": {"tensor_s is .*; it must be from 0 to 1e.12": [math.nan, 1e300]},
        "latency_s": {r"latency_s is \[1\]; give a number": [[1]]},
        "split_bytes": {"split_bytes is .*; it must be from 0": [-1, math.nan]},
        "whole_share": {"whole_share is": [0, 1.5, "1"]},
        "shared": {"shared .*SharedCapacity": [1e6, [1e6], SharedCapacity(1e6)]},
    },
)
test_shared_capacity_refused = refusals(
    SharedCapacity,
    {"bandwidth_bps": 1e6},
    {"bandwidth_bps": {"bandwidth_bps: ": [-1, math.inf, "1e6", None]}},
)


@pytest.mark.parametrize("link", [Link(1e6), Link([(0, 1e6), (5, 2e6)])], ids=["fixed", "varying"])
@pytest.mark.parametrize(
    ("tensor_bytes", "start_s"),
    [([-5], 0), ([5, math.nan], 0), ([math.inf], 0), ([1e308] * 2, 0), ([5], -1), ([5], math.nan)],
)
def test_transfers_that_cannot_be_are_refused(
    link: Link, tensor_bytes: list[float], start_s: float
) -> None:
    with pytest.raises(ValueError, match="sizes and the time are finite and not negative"):
        link.transfer_s(tensor_bytes, start_s)


def test_numbers_of_another_precision_become_floats() -> None:
    numbers: dict[str, Any] = {"bandwidth_bps": np.int64(10_000), "latency_s": np.float16(0.5)}
    link = Link(**numbers)
    assert link == Link(1e4, latency_s=0.5)
    assert {type(link.bandwidth), type(link.latency_s)} == {float}


def test_an_unknown_testbed_names_the_right_ones() -> None:
    assert load_testbed("dynacomm")["workers"]["count"] == 8
    with pytest.raises(UnknownNameError, match="Did you mean 'dynacomm'"):
        load_testbed("dynacom")
