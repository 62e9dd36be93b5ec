"""Events that the simulator's kernel processes a second, with messages over links.

``python benchmarks/runtime_events.py`` prints events and messages a second of this process's CPU
time beside bare SimPy, and ends with status 1 if a bar is missed: 200,000 events a second without a
trace, 100,000 with one. Cases take turns, and the best repeat of each counts, since other programs
only ever add time.
Every round sends a message around a ring of nodes over links of their own; the rows below show
what latency, schedules and shared network interfaces cost on top.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from typing import NamedTuple

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
    turns = [{name: case() for name, case in cases.items()} for _ in range(REPEATS)]
    best = {name: min((turn[name] for turn in turns), key=lambda one: one.cpu_s) for name in cases}
    plain_rate = best["bare SimPy timeouts"].events_per_s
    table = Table("case", "events per CPU s", "messages per CPU s", "of bare SimPy", "CPU s")
    for name, one in best.items():
        rates = (f"{one.events_per_s:,.0f}", f"{one.messages / one.cpu_s:,.0f}")
        table.add_row(name, *rates, f"{one.events_per_s / plain_rate:.2f}", f"{one.cpu_s:.3f}")
    console = Console(width=120)
    console.print(table)
    missed = [name for name, bar in BARS.items() if best[name].events_per_s < bar]
    for name, bar in BARS.items():
        verdict, rate = "missed" if name in missed else "met", best[name].events_per_s
        console.print(f"{name}: {rate:,.0f} events a CPU second; bar {bar:,} {verdict}")
    return 1 if missed else 0


class Taken(NamedTuple):
    """What one run did, in how long."""

    events: int
    messages: int
    cpu_s: float

    @property
    def events_per_s(self) -> float:
        """In CPU time, whatever else the machine did."""
        return self.events / self.cpu_s


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


def events(cluster: Cluster, program: Program = pass_on, *, trace: bool = False) -> Taken:
    before_s = time.process_time()
    run = simulate(cluster, [program] * NODES, trace=trace)
    cpu_s = time.process_time() - before_s
    return Taken(run.events, sum(use.messages for use in run.links), cpu_s)


def bare() -> Taken:
    env = simpy.Environment()

    def process() -> Generator[simpy.Event, None, None]:
        for _ in range(2 * ROUNDS):
            yield env.timeout(1.0)

    for _ in range(NODES):
        env.process(process())
    before_s = time.process_time()
    env.run()
    return Taken(2 * NODES * ROUNDS, 0, time.process_time() - before_s)


if __name__ == "__main__":
    sys.exit(main())
