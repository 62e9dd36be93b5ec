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

    Parameters
    ----------
    problem
        Whose bandwidths and overhead the links have.
    sharing
        ``"none"``: every message has its pair's whole bandwidth, whatever else is sent, as the
        paper's cost model assumes (Eq. 4). Samples lie on a fourth node, which has the device's
        links to edge and cloud once more and a free one to the device.
        ``"interfaces"``: the device sends the samples itself, over one interface of its bandwidth
        to the edge; the cloud has one of its bandwidth to the edge. What is sent or received at
        the same time shares these max-min fairly, each way for itself. The edge's are two, one
        to either side, and limit nothing more.
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
    near_bps, far_bps = (
        problem.bandwidth_bps["device", "edge"],
        problem.bandwidth_bps["edge", "cloud"],
    )
    nodes = [
        Node("device", uplink_bps=near_bps, downlink_bps=near_bps),
        Node("edge"),
        Node("cloud", uplink_bps=far_bps, downlink_bps=far_bps),
    ]
    return Cluster(nodes, links)
