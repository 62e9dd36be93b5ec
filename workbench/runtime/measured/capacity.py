"""What this machine carries, over one connection and in all, beside what links may ask for."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache

from workbench.clusters import Cluster, Schedule
from workbench.runtime.measured.network import fastest_bps
from workbench.utils.checks import UserError

SURELY_BPS = 1e9
"""Any machine carries that; more is tried out before a run."""
_TRIES = 3
_PART, _PARTS = bytes(1 << 18), 128


def check_bandwidth(cluster: Cluster) -> str:
    """Refuse links beyond what one connection on this machine carries.

    Returns what to say of all links together if they may ask for more than it carries in all.
    """
    for (source, target), link in cluster.links.items():
        most_bps = fastest_bps(link)
        if SURELY_BPS < most_bps < math.inf and most_bps > (carried_bps := loopback_bps()):
            names = cluster.names[source], cluster.names[target]
            raise UserError(
                f"the link from {names[0]} to {names[1]} has {most_bps / 1e6:,.0f} Mbit/s; this "
                f"machine carries about {carried_bps / 1e6:,.0f} Mbit/s over one connection. Give "
                "it less, or simulate"
            )
    asked_bps = most_in_all_bps(cluster)
    at_once = max(1, (os.cpu_count() or 1) // 2)  # each keeps a core busy at either end
    if SURELY_BPS < asked_bps < math.inf and asked_bps > (carried_bps := loopback_bps(at_once)):
        return (
            f"links that are all busy at once ask for up to {asked_bps / 1e9:.3g} Gbit/s in all; "
            f"this machine carries {carried_bps / 1e9:.3g} Gbit/s at most, and less in small parts"
        )
    return ""


def most_in_all_bps(cluster: Cluster) -> float:
    """What all links together can carry at most, within the caps of their interfaces."""

    def through(end: int, capacities: Iterable[Schedule | None]) -> float:
        sums = [0.0] * len(cluster)
        for pair, link in cluster.links.items():
            sums[pair[end]] += fastest_bps(link)
        caps = [math.inf if cap is None else max(cap.values) for cap in capacities]
        return sum(map(min, sums, caps))

    uplinks, downlinks = zip(*((node.uplink, node.downlink) for node in cluster.nodes), strict=True)
    return min(through(0, uplinks), through(1, downlinks))


@cache
def loopback_bps(connections: int = 1) -> float:
    """What connections on this machine carry together, in bits per second, at best."""
    best_s = min(_loopback_s(connections) for _ in range(_TRIES))
    return 8 * len(_PART) * _PARTS * connections / best_s


def _loopback_s(connections: int) -> float:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        threads = []
        for _ in range(connections):
            sending = stack.enter_context(socket.create_connection(listener.getsockname()))
            receiving = stack.enter_context(listener.accept()[0])
            threads += [
                threading.Thread(target=_send_all, args=(sending,)),
                threading.Thread(target=_read_all, args=(receiving,)),
            ]
        began_s = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - began_s


def _send_all(connection: socket.socket) -> None:
    for _ in range(_PARTS):
        connection.sendall(_PART)


def _read_all(connection: socket.socket) -> None:
    room, left = bytearray(len(_PART)), len(_PART) * _PARTS
    while left > 0:
        left -= connection.recv_into(room)
