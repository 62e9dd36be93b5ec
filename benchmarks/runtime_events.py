"""Events that the simulator's kernel processes a second, with messages over links.

``python benchmarks/runtime_events.py`` prints events and messages a second beside bare SimPy, and
ends with status 1 if a bar is missed: 200,000 events a second without a trace, 100,000 with one.
Every round sends a message around a ring of nodes over links of their own; the rows below show
what latency, schedules and shared network interfaces cost on top.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator

import simpy
from rich.console import Console
from rich.table import Table

from workbench.clusters import Cluster, Link, Node, Schedule, full_mesh
from workbench.runtime import Context, Message, Program, simulate

NODES = 8
ROUNDS = 8_000
REPEATS = 3
BARS = {"links": 200_000, "links, traced": 100_000}


def main() -> int:
    plain, limited = Link(1e9, overhead_s=1e-3), 1.5e9
    stepped = Schedule.of([(at, 1e9 if at % 2 else 5e8) for at in range(60)])
    cases = {
        "links": lambda: events(ring(plain)),
        "links, traced": lambda: events(ring(plain), trace=True),
        "with latency": lambda: events(ring(Link(1e9, overhead_s=1e-3, latency_s=1e-3))),
        "bandwidth schedule": lambda: events(ring(Link(stepped, overhead_s=1e-3))),
        "own interfaces": lambda: events(ring(plain, uplink_bps=limited)),
        "shared interfaces": lambda: events(mesh(plain, limited), scatter),
        "bare SimPy timeouts": bare,
    }
    table = Table("case", "events a second", "messages a second", "of bare SimPy")
    rates = {name: max(case() for _ in range(REPEATS)) for name, case in cases.items()}
    for name, (rate, messages) in rates.items():
        ratio = rate / rates["bare SimPy timeouts"][0]
        table.add_row(name, f"{rate:,.0f}", f"{messages:,.0f}", f"{ratio:.2f}")
    console = Console()
    console.print(table)
    missed = [name for name, bar in BARS.items() if rates[name][0] < bar]
    for name, bar in BARS.items():
        verdict = "missed" if name in missed else "met"
        console.print(f"{name}: {rates[name][0]:,.0f} events a second; bar {bar:,} {verdict}")
    return 1 if missed else 0


def ring(link: Link, uplink_bps: float | None = None) -> Cluster:
    nodes = [Node(f"node{index}", uplink_bps=uplink_bps) for index in range(NODES)]
    return Cluster(nodes, {(index, (index + 1) % NODES): link for index in range(NODES)})


def mesh(link: Link, uplink_bps: float) -> Cluster:
    nodes = [Node(f"node{index}", uplink_bps=uplink_bps) for index in range(NODES)]
    return full_mesh(nodes, link)


async def scatter(context: Context) -> None:
    """Send to all others at once, so that seven transfers share each uplink."""
    for _ in range(ROUNDS // 20):
        for to in context.peers:
            context.send(to, Message(context.node, "part", None, 10_000.0))
        for _ in context.peers:
            await context.receive("part")


async def pass_on(context: Context) -> None:
    to = (context.node + 1) % NODES
    for _ in range(ROUNDS):
        context.send(to, Message(context.node, "token", None, 10_000.0))
        await context.receive("token")


def events(
    cluster: Cluster, program: Program = pass_on, *, trace: bool = False
) -> tuple[float, float]:
    """Events and messages in a second of this process's time, whatever else the machine does."""
    start_s = time.process_time()
    run = simulate(cluster, [program] * NODES, trace=trace)
    spent_s = time.process_time() - start_s
    return run.events / spent_s, sum(use.messages for use in run.links) / spent_s


def bare() -> tuple[float, float]:
    env = simpy.Environment()

    def process() -> Generator[simpy.Event, None, None]:
        for _ in range(2 * ROUNDS):
            yield env.timeout(1.0)

    for _ in range(NODES):
        env.process(process())
    start_s = time.process_time()
    env.run()
    return 2 * NODES * ROUNDS / (time.process_time() - start_s), 0.0


if __name__ == "__main__":
    sys.exit(main())
