"""What the links of a cluster ask for: what one connection carries, and capacities they share."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import Any

from workbench.clusters import Cluster, Link, Schedule
from workbench.utils.checks import UserError

Pair = tuple[int, int]
"""A link, by the indices of its source and its target."""

SURELY_BPS = 1e9
"""Any machine carries that; more is measured before a run."""
_TRIES = 3
_PART, _PARTS = bytes(1 << 18), 128


def check_bandwidth(cluster: Cluster) -> None:
    """Refuse links beyond what one connection on this machine carries."""
    for (source, target), link in cluster.links.items():
        most_bps = fastest_bps(link)
        if SURELY_BPS < most_bps < math.inf and most_bps > (carried_bps := loopback_bps()):
            names = cluster.names[source], cluster.names[target]
            raise UserError(
                f"the link from {names[0]} to {names[1]} has {most_bps / 1e6:,.0f} Mbit/s; this "
                f"machine carries about {carried_bps / 1e6:,.0f} Mbit/s over one connection. Give "
                "it less, or simulate"
            )


@cache
def loopback_bps() -> float:
    """What a connection on this machine carries, in bits per second, at best."""
    return 8 * len(_PART) * _PARTS / min(_loopback_s() for _ in range(_TRIES))


def _loopback_s() -> float:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as sending,
        listener.accept()[0] as receiving,
    ):
        thread = threading.Thread(target=sending.sendall, args=(_PART * _PARTS,))
        began_s = time.perf_counter()
        thread.start()
        room, left = bytearray(len(_PART)), len(_PART) * _PARTS
        while left > 0:
            left -= receiving.recv_into(room)
        took_s = time.perf_counter() - began_s
        thread.join()
        return took_s


def fastest_bps(link: Link) -> float:
    """The highest bandwidth that a link ever has; it may be infinite, for as fast as it goes."""
    bandwidth = link.bandwidth
    return max(bandwidth.values) if isinstance(bandwidth, Schedule) else bandwidth


def without_roomy_interfaces(cluster: Cluster) -> Cluster:
    """Leave out caps on uplinks and downlinks that all links together cannot fill."""
    nodes = list(cluster.nodes)
    for index, node in enumerate(nodes):
        for at, name, capacity in ((0, "uplink", node.uplink), (1, "downlink", node.downlink)):
            through = [link for pair, link in cluster.links.items() if pair[at] == index]
            if capacity is not None and sum(map(fastest_bps, through)) <= min(capacity.values):
                cap: dict[str, Any] = {f"{name}_bps": None}
                nodes[index] = replace(nodes[index], **cap)
    links: dict[tuple[int | str, int | str], Link] = dict(cluster.links.items())
    return Cluster(nodes, links, raw_samples_may_leave=cluster.raw_samples_may_leave)


def arbitrated(cluster: Cluster) -> set[Pair]:
    """Links that an arbiter times: no node alone knows all that share a capacity with them.

    They are those of a capacity that links of several nodes share, such as a downlink, and all that
    share another one with these.
    """
    users: defaultdict[object, list[Pair]] = defaultdict(list)
    crossed: dict[Pair, list[object]] = {}
    for pair, link in cluster.links.items():
        source, target = (cluster.nodes[node] for node in pair)
        crossed[pair] = [
            *([] if source.uplink is None else [("uplink", pair[0])]),
            *([] if target.downlink is None else [("downlink", pair[1])]),
            *link.shared,
        ]
        for capacity in crossed[pair]:
            users[capacity].append(pair)
    found: set[Pair] = set()
    left = [each for each, pairs in users.items() if len({source for source, _ in pairs}) > 1]
    while left:
        for pair in users.pop(left.pop(), ()):
            if pair not in found:
                found.add(pair)
                left += crossed[pair]
    return found
