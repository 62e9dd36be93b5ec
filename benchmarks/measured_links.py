"""How closely real transfers keep to the model's time: overhead plus bytes over bandwidth.

``python benchmarks/measured_links.py`` runs three processes in a ring, each of which sends to the
next, and notes how long each message took from the call of `send` to the end of `receive`. Status 1
if a median is over 5 % off where the model says 10 ms or more. Then five processes, each of which
sends to all others at once without a pause, at higher and higher bandwidth: up to which total rate
this machine carries that with a median error of at most 5 %. No bar there: it is a fact about the
machine. ``python benchmarks/measured_links.py ring``, or ``mesh``, do one of these.
"""

from __future__ import annotations

import statistics
import sys

from workbench.clusters import Cluster, Link, Node
from workbench.runtime import Context, Message, Program
from workbench.runtime.measured import MeasuredRun, measure, session
from workbench.runtime.measured.check import MOST_OFF, RATES_MBPS, loaded

FROM_S = 0.010
SIZES = (10e3, 100e3, 1e6, 5e6)
LINKS = tuple(Link(mbps * 1e6, overhead_s) for mbps in (50, 1000) for overhead_s in (0.02, 0.0))
MOST_S, MOST = 6.0, 40
"""Of a link and a size: about how long it is measured, and how many messages at most."""
MESH_NODES, MESH_S = 5, 3.0


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


def main() -> int:
    """Do what the arguments ask for; 1 if a bar is missed."""
    wanted = sys.argv[1:] or ["ring", "mesh"]
    missed = []
    with session(places=MESH_NODES):
        if "ring" in wanted:
            missed = [ring(link, size_bytes) for link in LINKS for size_bytes in SIZES]
        if "mesh" in wanted:
            for mbps in RATES_MBPS:
                print(f"       {loaded(MESH_NODES, mbps, lasting_s=MESH_S)}", flush=True)
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
