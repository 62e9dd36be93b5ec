"""Device, edge and cloud as nodes and links of the simulated network."""

from __future__ import annotations

import math

from workbench.clusters import Cluster, Link, Node
from workbench.hiertrain.costs.problem import PAIRS, TIERS, Problem
from workbench.names import check_name

SHARING = ("none", "interfaces")
SOURCE = "samples"


def cluster_of(problem: Problem, sharing: str = "none") -> Cluster:
    """Device, edge and cloud, and how they are linked.

    With ``sharing`` ``"none"`` every message has its pair's whole bandwidth, whatever else is sent,
    as the paper's cost model assumes (Eq. 4): samples lie on a fourth node with the device's links
    to edge and cloud once more and a free one to the device. With ``"interfaces"`` the device sends
    the samples itself, over one interface of its bandwidth to the edge; the cloud has one of its
    bandwidth to the edge. Concurrent messages share these max-min fairly in each direction. The
    edge's two interfaces, one to either side, limit nothing more.
    """
    check_name("sharing", sharing, SHARING)
    links: dict[tuple[int | str, int | str], Link] = {}

    def connect(one: str, other: str, link: Link) -> None:
        links[one, other] = links[other, one] = link

    between = {pair: Link(problem.bandwidth_bps[pair], problem.overhead_s) for pair in PAIRS}
    for (one, other), link in between.items():
        connect(one, other, link)
    if sharing == "none":
        connect(SOURCE, "device", Link(math.inf))
        connect(SOURCE, "edge", between["device", "edge"])
        connect(SOURCE, "cloud", between["device", "cloud"])
        return Cluster([Node(name) for name in (*TIERS, SOURCE)], links)
    near_bps = problem.bandwidth_bps["device", "edge"]
    far_bps = problem.bandwidth_bps["edge", "cloud"]
    nodes = [
        Node("device", uplink_bps=near_bps, downlink_bps=near_bps),
        Node("edge"),
        Node("cloud", uplink_bps=far_bps, downlink_bps=far_bps),
    ]
    return Cluster(nodes, links)
