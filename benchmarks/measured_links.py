"""How closely real transfers keep to the model's time: overhead plus bytes over bandwidth.

``python benchmarks/measured_links.py`` runs three processes in a ring, each of which sends to the
next, and notes how long each message took from the call of `send` to the end of `receive`. Status 1
if a median is over 5 % off where the model says 10 ms or more. Then links that share interfaces, of
one node or of all, against the simulation, with the same bar for the median. Then five processes,
each of which sends to all others at once without a pause, at higher and higher bandwidth: up to
which total rate this machine carries that with a median error of at most 5 %. No bar there: it is a
fact about the machine. Last, as a cross-check, what Linux makes of the same rates
(SO_MAX_PACING_RATE). Arguments ``ring``, ``shared``, ``mesh`` and ``kernel`` choose.
"""

from __future__ import annotations

import socket
import statistics
import sys
import threading
import time
from contextlib import ExitStack
from itertools import permutations, product

from workbench.clusters import Cluster, Link, Node
from workbench.clusters.cluster import Name
from workbench.runtime import Context, Message, Program, simulate
from workbench.runtime.measured import MeasuredRun, measure, session
from workbench.runtime.measured.capacity import fastest_bps
from workbench.runtime.measured.check import MOST_OFF, RATES_MBPS, back_to_back, loaded

FROM_S = 0.010
SIZES = (10e3, 100e3, 1e6, 5e6)
LINKS = tuple(Link(mbps * 1e6, overhead_s) for mbps in (50, 1000) for overhead_s in (0.02, 0.0))
MOST_S, MOST = 6.0, 40
"""Of a link and a size: about how long it is measured, and how many messages at most."""
MESH_NODES, MESH_S = 5, 3.0
SHARED_MBPS, SHARED_SIZES, SHARED_S = (50, 100, 200), (100e3, 1e6), 2.0
SO_MAX_PACING_RATE = 47  # of Linux; Python has no name for it
SEGMENT = 1448  # bytes, as on a network: the loopback's are large, and the first ten are not paced


def one_by_one(to: int, sender: int, size_bytes: float, model_s: float, count: int) -> Program:
    """Send a message, let it arrive, then the next; return the seconds of those received."""

    async def send(context: Context) -> None:
        for _ in range(count):
            context.send(to, Message(context.node, "x", context.now_s(), size_bytes))
            await context.sleep(1.3 * model_s + 0.005)

    async def program(context: Context) -> list[float]:
        sending = context.spawn(send(context))
        took_s = []
        for _ in range(count):
            message = await context.receive("x", sender=sender)
            took_s.append(context.now_s() - message.payload)
        await sending
        return took_s

    return program


def lateness(run: MeasuredRun) -> str:
    """How many transfers left late, and by how much at worst."""
    late = run.late.filter(kind="transfer")
    worst_ms = 1e3 * (late["worst_s"].max() or 0.0)  # type: ignore[operator]
    count = f"{late['late'].sum()} of {late['count'].sum()} left over 1 ms late"
    return f"{count}, the worst {worst_ms:.1f} ms; steal {run.steal:.1%}"


def ring(link: Link, size_bytes: float) -> bool:
    """Whether transfers of a size in a ring of three are within the bar."""
    model_s = link.overhead_s + link.transfer_s([size_bytes])
    count = max(5, min(MOST, int(MOST_S / model_s)))
    cluster = Cluster([Node(name) for name in "abc"], {(at, (at + 1) % 3): link for at in range(3)})
    programs = [
        one_by_one((at + 1) % 3, (at - 1) % 3, size_bytes, model_s, count) for at in range(3)
    ]
    run = measure(cluster, programs)
    errors = sorted(took_s / model_s - 1 for each in run.results.values() for took_s in each)
    median, p95 = statistics.median(errors), errors[int(0.95 * len(errors))]
    counts = model_s >= FROM_S
    missed = counts and median > MOST_OFF
    print(
        f"{'MISSED' if missed else 'met   ' if counts else '      '} {link}, "
        f"{size_bytes / 1e3:,.0f} kB: model {1e3 * model_s:.2f} ms, median error {median:+.2%} "
        f"({1e3 * median * model_s:+.2f} ms), p95 {p95:+.2%}, worst {errors[-1]:+.2%} of "
        f"{len(errors)}; {lateness(run)}",
        flush=True,
    )
    return missed


def shared(name: str, cluster: Cluster, size_bytes: float) -> bool:
    """Whether transfers over interfaces that several nodes share come when the simulation says."""
    bps = max(fastest_bps(link) for link in cluster.links.values())
    count = max(3, int(SHARED_S * bps / (8 * size_bytes * (len(cluster) - 1))))
    programs = [back_to_back(size_bytes, count)] * len(cluster)
    expected, run = simulate(cluster, programs).results, measure(cluster, programs)
    pairs = [
        pair
        for node, came in expected.items()
        for sender, times_s in came.items()
        for pair in zip(times_s, run.results[node][sender], strict=True)
    ]
    errors = sorted(came_s / model_s - 1 for model_s, came_s in pairs)
    median, p95 = statistics.median(errors), errors[int(0.95 * len(errors))]
    missed = bool(abs(median) > MOST_OFF)
    print(
        f"{'MISSED' if missed else 'met   '} {name} of {bps / 1e6:g} Mbit/s, "
        f"{size_bytes / 1e3:,.0f} kB, the first after {1e3 * min(pairs)[0]:.0f} ms: median error "
        f"{median:+.2%}, p95 {p95:+.2%}, from {errors[0]:+.2%} to {errors[-1]:+.2%} of "
        f"{len(errors)}; {lateness(run)}",
        flush=True,
    )
    return missed


def all_shared() -> list[bool]:
    """A server whose interface three clients share, and a mesh that shares all interfaces."""
    missed = []
    for mbps, size_bytes in product(SHARED_MBPS, SHARED_SIZES):
        bps = mbps * 1e6
        nodes = [Node(name, uplink_bps=bps, downlink_bps=bps) for name in "abcd"]
        pairs, clients = list(permutations("abcd", 2)), [Node(name) for name in "bcd"]
        star: dict[tuple[Name, Name], Link] = {pair: Link(bps) for pair in pairs if "a" in pair}
        mesh: dict[tuple[Name, Name], Link] = {pair: Link(bps) for pair in pairs}
        for name, cluster in (
            ("three clients, interface", Cluster([nodes[0], *clients], star)),
            ("mesh of four, interfaces", Cluster(nodes, mesh)),
        ):
            missed.append(shared(name, cluster, size_bytes))
    return missed


def by_the_kernel() -> None:
    """The same transfers by one connection that Linux paces itself, at the same rates."""
    for mbps, size_bytes in product((50, 1000), (1_000_000, 5_000_000)):
        model_s = size_bytes * 8 / (mbps * 1e6)
        errors = sorted(_kernel_s(mbps * 1e6, size_bytes) / model_s - 1 for _ in range(9))
        print(
            f"       paced by Linux at {mbps} Mbit/s, {size_bytes / 1e3:,.0f} kB: median error "
            f"{statistics.median(errors):+.2%}, worst {errors[-1]:+.2%}",
            flush=True,
        )


def _kernel_s(bps: float, size_bytes: int) -> float:
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        sending = stack.enter_context(socket.socket())
        sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
        sending.connect(listener.getsockname())
        receiving = stack.enter_context(listener.accept()[0])
        sending.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, int(bps / 8))
        writer = threading.Thread(target=sending.sendall, args=(bytes(size_bytes),))
        began_s, left = time.perf_counter(), size_bytes
        writer.start()
        while left:
            left -= len(receiving.recv(1 << 16))
        writer.join()
        return time.perf_counter() - began_s


def main() -> int:
    """Do what the arguments ask for; 1 if a bar is missed."""
    wanted = sys.argv[1:] or ["ring", "shared", "mesh", "kernel"]
    missed = []
    with session(places=MESH_NODES):
        if "ring" in wanted:
            missed = [ring(link, size_bytes) for link in LINKS for size_bytes in SIZES]
        if "shared" in wanted:
            missed += all_shared()
        if "mesh" in wanted:
            for mbps in RATES_MBPS:
                print(f"       {loaded(MESH_NODES, mbps, lasting_s=MESH_S)}", flush=True)
    if "kernel" in wanted and sys.platform == "linux":
        by_the_kernel()
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
