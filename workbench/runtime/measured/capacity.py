"""What one connection on this machine carries, beside what links ask for."""

from __future__ import annotations

import math
import socket
import threading
import time
from functools import cache

from workbench.clusters import Cluster
from workbench.runtime.measured.network import fastest_bps
from workbench.utils.checks import UserError

SURELY_BPS = 1e9
"""Any machine carries that; more is tried out before a run."""
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
