"""How the simulator's own time grows with the number of nodes, 10 to 10,000, five messages each.

``python benchmarks/runtime_scale.py`` prints CPU seconds by case and number of nodes, and the slope
of each decade: 1 is linear, 2 the square. Status 1 if any slope from 100 nodes on is above 1.4, or
10,000 nodes take over 20 s (60 s where several bottlenecks of one network depend on each other).
Where the rates of all transfers change with each that ends, a case goes as far as 1,000 nodes.
``python benchmarks/runtime_scale.py 1000`` goes as far as that.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from workbench.clusters import Cluster, Link, Node, graph, star
from workbench.clusters.cluster import Name
from workbench.decentralised import ring
from workbench.runtime import Context, Message, Program, simulate

MESSAGES = 5
SIZES = (10, 100, 1_000, 10_000)
SLOPE_BAR, SECONDS_BAR, COUPLED_SECONDS_BAR = 1.4, 20.0, 60.0
LINK = Link(1e8, overhead_s=1e-3)
FAST, SLOW = 1e9, 6e7
LIMITS = (1e6, 2e6, 5e6)

Case = Callable[[int], tuple[Cluster, list[Program]]]


def main() -> int:
    most = int(sys.argv[1]) if sys.argv[1:] else SIZES[-1]
    sizes = [size for size in SIZES if size <= most]
    table = Table("case", *(f"{size:,}" for size in sizes), "slopes")
    console, missed = Console(width=120), []
    for name, case in CASES.items():
        case_sizes = [size for size in sizes if size <= MOST.get(name, size)]
        seconds = [best_s(case, size) for size in case_sizes]
        slopes = [math.log10(after / before) for before, after in pairwise(seconds)]
        cells = [f"{s:.3g}" for s in seconds] + ["-"] * (len(sizes) - len(seconds))
        table.add_row(name, *cells, " ".join(f"{s:.2f}" for s in slopes))
        bar_s = COUPLED_SECONDS_BAR if name in COUPLED else SECONDS_BAR
        if max(slopes[1:], default=0.0) > SLOPE_BAR or seconds[-1] > bar_s:
            missed.append(name)
    console.print(table)
    console.print(f"missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


def best_s(case: Case, size: int) -> float:
    """CPU seconds; the best of several where it is short, as other programs only add time."""
    taken: list[float] = []
    while len(taken) < 3 and sum(taken) < 1.0:
        cluster, programs = case(size)
        began_s = time.process_time()
        simulate(cluster, programs)
        taken.append(time.process_time() - began_s)
    return min(taken)


def equal(node: int) -> float:
    del node
    return 1e5


def unequal(node: int) -> float:
    return 1e5 * (1 + (node * 0.6180339887) % 1)


def to_peers(size_of: Callable[[int], float]) -> Program:
    async def program(context: Context) -> None:
        for _ in range(MESSAGES):
            for peer in context.peers:
                context.send(peer, Message(context.node, "model", None, size_of(context.node)))
            for _ in context.peers:
                await context.receive("model")

    return program


def one_way_ring(size: int, bps: float | None = None) -> tuple[Cluster, list[Program]]:
    nodes = [Node(f"n{at}", uplink_bps=bps, downlink_bps=bps) for at in range(size)]
    links: dict[tuple[Name, Name], Link] = {(at, (at + 1) % size): LINK for at in range(size)}

    async def program(context: Context) -> None:
        (to,) = context.peers
        for _ in range(MESSAGES):
            context.send(to, Message(context.node, "model", None, unequal(context.node)))
            await context.receive("model")

    return Cluster(nodes, links), [program] * size


def two_way_ring(size: int) -> tuple[Cluster, list[Program]]:
    nodes = [Node(f"n{at}", uplink_bps=SLOW, downlink_bps=SLOW) for at in range(size)]
    return graph(nodes, ring(size).edges, LINK), [to_peers(unequal)] * size


def to_server(
    size: int, size_of: Callable[[int], float], uplink_of: Callable[[int], float] | None = None
) -> tuple[Cluster, list[Program]]:
    """Workers that send to one server whose interface they share."""
    workers = [
        Node(f"w{at}", uplink_bps=None if uplink_of is None else uplink_of(at))
        for at in range(size)
    ]
    cluster = star(workers, [Node("server", downlink_bps=FAST)], LINK)

    async def worker(context: Context) -> None:
        for _ in range(MESSAGES):
            context.send(size, Message(context.node, "push", None, size_of(context.node)))

    async def server(context: Context) -> None:
        for _ in range(MESSAGES * size):
            await context.receive("push")

    return cluster, [*[worker] * size, server]


def two_servers(size: int) -> tuple[Cluster, list[Program]]:
    """All interfaces limited; those of the servers bind."""
    workers = [
        Node(f"w{at}", uplink_bps=LIMITS[at % 3], downlink_bps=LIMITS[at % 3]) for at in range(size)
    ]
    servers = [Node(f"s{at}", uplink_bps=5e6, downlink_bps=5e6) for at in range(2)]
    return star(workers, servers, LINK), pushing_and_pulling(size)


def pushing_and_pulling(size: int) -> list[Program]:
    """Programs of workers and of two servers that answer them."""

    async def worker(context: Context) -> None:
        for _ in range(MESSAGES):
            for server in (size, size + 1):
                message = Message(context.node, "push", None, unequal(context.node + server))
                context.send(server, message)
            for _ in range(2):
                await context.receive("pull")

    async def server(context: Context) -> None:
        for _ in range(MESSAGES * size):
            push = await context.receive("push")
            context.send(push.sender, Message(context.node, "pull", None, 1e5))

    return [*[worker] * size, *[server] * 2]


def two_scarce_servers(size: int) -> tuple[Cluster, list[Program]]:
    """Workers of 1 to 5 Mbit/s; two servers that give them 1 each, and depend on each other."""
    limits = [1e6 * (1 + 4 * (at * 0.6180339887 % 1)) for at in range(size)]
    workers = [Node(f"w{at}", uplink_bps=bps, downlink_bps=bps) for at, bps in enumerate(limits)]
    bps = 1e6 * size
    servers = [Node(f"s{at}", uplink_bps=bps, downlink_bps=bps) for at in range(2)]
    return star(workers, servers, LINK), pushing_and_pulling(size)


def limit(node: int) -> float:
    return FAST / 2_000 * (1 + (node * 0.7548776662) % 1)


CASES: dict[str, Case] = {
    "ring": one_way_ring,
    "ring, limited interfaces": lambda size: one_way_ring(size, SLOW),
    "star, shared server interface, equal sizes": lambda size: to_server(size, equal),
    "the same, unequal sizes": lambda size: to_server(size, unequal),
    "the same, equal limits of uplinks": lambda size: to_server(size, unequal, lambda _: SLOW),
    "the same, unequal limits of uplinks": lambda size: to_server(size, unequal, limit),
    "two-way ring, limited interfaces": two_way_ring,
    "two servers, limited interfaces": two_servers,
    "two servers, all rates coupled": two_scarce_servers,
}
MOST = {"two servers, all rates coupled": 1_000}
COUPLED = ("two-way ring, limited interfaces", "two servers, limited interfaces")


if __name__ == "__main__":
    sys.exit(main())
