"""What a machine or a cluster carries, before anybody waits for a run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.runtime.context import Context, Program
from workbench.runtime.measured.measuring import measure
from workbench.runtime.measured.run import LATE_S, MeasuredRun
from workbench.runtime.measured.sessions import current_or_new
from workbench.runtime.messages import Message
from workbench.utils.numbers import percent
from workbench.utils.ray_cluster import import_ray

MOST_OFF = 0.05
"""How far the median may be off where links are carried."""

RATES_MBPS = (10, 25, 50, 100, 200, 400, 800)
_MESH_BYTES, _MESH_S = 1e6, 1.0
_NAPS, _NAP_S = 200, 0.001


class Load(NamedTuple):
    """Links that are all busy at once, and how far their messages were off the model's time.

    Each counts with all those before it on its link, as a program sees it.
    """

    links: int
    mbps: float  # of each
    median: float
    p95: float
    run: MeasuredRun

    @property
    def total_gbps(self) -> float:
        """Of all links together."""
        return self.links * self.mbps / 1e3

    @property
    def carried(self) -> bool:
        """Whether the median is within `MOST_OFF`."""
        return self.median <= MOST_OFF

    def __str__(self) -> str:
        late = self.run.late.filter(kind="transfer")
        return (
            f"{self.links} links of {self.mbps:g} Mbit/s, {self.total_gbps:g} Gbit/s in all: "
            f"median error {100 * self.median:+.2f} %, p95 {100 * self.p95:+.2f} %, "
            f"{'carried' if self.carried else 'not carried'}; {late['late'].sum()} of "
            f"{late['count'].sum()} left over {LATE_S * 1e3:g} ms late"
        )


def loaded(nodes: int, mbps: float, *, lasting_s: float, address: str | None = None) -> Load:
    """Let all links among some nodes be busy at once, for about so long."""
    link = Link(mbps * 1e6)
    model_s = link.transfer_s([_MESH_BYTES])
    count = max(3, int(lasting_s / model_s))
    programs = [back_to_back(_MESH_BYTES, count)] * nodes
    run = measure(full_mesh(nodes, link), programs, address=address)
    links = [came_s for heard in run.results.values() for came_s in heard.values()]
    errors = sorted(
        came_s / (model_s * number) - 1
        for link_s in links
        for number, came_s in enumerate(link_s, 1)
    )
    median, p95 = statistics.median(errors), errors[int(0.95 * len(errors))]
    return Load(len(links), mbps, median, p95, run)


def check(
    say: Callable[[str], object] = print, *, nodes: int = 3, address: str | None = None
) -> None:
    """Say what this machine, or a Ray cluster, carries: versions, clocks, links.

    Parameters
    ----------
    say
        Is given each line as it is known.
    nodes
        How many processes try their links.
    address
        Of a Ray cluster, as for `measure`.
    """
    say(f"Ray {import_ray().__version__}")
    began_s = time.monotonic()
    with current_or_new(nodes, address) as opened:
        cluster = Cluster([Node(f"node{index}") for index in range(nodes)])
        run = measure(cluster, [_describe] * nodes)
        say(f"{nodes} processes started in {time.monotonic() - began_s:.1f} s")
        for name, about in zip(cluster.names, run.results.values(), strict=True):
            say(f"{name}: {about}")
        best_gbps = 0.0
        for mbps in RATES_MBPS:
            load = loaded(nodes, mbps, lasting_s=_MESH_S)
            say(str(load))
            if not load.carried:
                break
            best_gbps = load.total_gbps
        if not best_gbps:
            say(f"links of {mbps} Mbit/s are too fast for this machine while it is so busy")
        else:
            most = percent(MOST_OFF)
            say(f"carries {best_gbps:g} Gbit/s with a median within {most} of the model's")
        if opened.address is None:
            say("on one machine: its cores and its memory are shared by all nodes")


async def _describe(context: Context) -> str:
    """Versions, cores and clock of the machine on which a node is."""
    return await context.compute(_about, cost_s=0)


def _about() -> str:
    import platform
    from importlib.metadata import version

    import psutil

    late_s = []
    for _ in range(_NAPS):
        began_s = time.monotonic()
        time.sleep(_NAP_S)
        late_s.append(time.monotonic() - began_s - _NAP_S)
    late_s.sort()
    memory = psutil.virtual_memory()
    packages = ("edge-training-workbench", "torch", "numpy")
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return (
        f"{platform.node()}, {psutil.cpu_count()} cores, {memory.available / 2**30:.1f} of "
        f"{memory.total / 2**30:.1f} GiB free, Python {platform.python_version()}, {versions}; "
        f"wakes {1e3 * late_s[_NAPS // 2]:.2f} ms late, {1e3 * late_s[int(0.95 * _NAPS)]:.2f} ms "
        "at p95"
    )


def back_to_back(size_bytes: float, count: int) -> Program:
    """Send to all peers at once; return when the messages of each came."""

    async def program(context: Context) -> Any:
        for peer in context.peers:
            for _ in range(count):
                context.send(peer, Message(context.node, "x", None, size_bytes))
        came_s: dict[int, list[float]] = {peer: [] for peer in context.peers}
        for _ in range(count * len(context.peers)):
            message = await context.receive()
            came_s[message.sender].append(context.now_s())
        return came_s

    return program
