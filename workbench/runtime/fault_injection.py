"""Faults put into a simulation before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import simpy

from workbench.runtime.faults import Crash, Fault, LinkDown, Lossy, Restart, SlowDown
from workbench.runtime.kernel import FIRST
from workbench.runtime.streams import Purpose, stream

if TYPE_CHECKING:
    from workbench.runtime.host import Host
    from workbench.runtime.simulation import Simulation


def inject(simulation: Simulation, faults: Sequence[Fault]) -> None:
    """Schedule all faults; they come first in their instant, in the order given.

    Raises
    ------
    UnknownNodeError, MissingLinkError
        A fault of a node or link that the cluster does not have.
    ValueError
        A node that crashes while it is down, or restarts while it is up.
    """
    cluster = simulation.cluster
    for fault in faults:
        if isinstance(fault, SlowDown):
            host = simulation.hosts[cluster.index(fault.node)]
            host.speed = host.speed.scaled(1 / fault.factor, fault.from_s, fault.to_s)
        elif isinstance(fault, LinkDown | Lossy):
            _on_link(simulation, fault)
    crashes: dict[int, list[Crash | Restart]] = {}
    for fault in faults:
        if isinstance(fault, Crash | Restart):
            crashes.setdefault(cluster.index(fault.node), []).append(fault)
    for node in sorted(crashes):
        _lives(simulation, simulation.hosts[node], crashes[node])


def _at(
    simulation: Simulation, at_s: float, action: Callable[[], None], host: Host | None = None
) -> None:
    def act(_: simpy.Event) -> None:
        action()

    simulation.fault_events[simulation.env.call(act, FIRST, at_s)] = host


def _lives(simulation: Simulation, host: Host, faults: list[Crash | Restart]) -> None:
    faults = sorted(faults, key=lambda fault: fault.at_s)
    for place, fault in enumerate(faults):
        crashes = isinstance(fault, Crash)
        if crashes != (place % 2 == 0):
            state = "up" if place % 2 == 0 else "down"
            raise ValueError(f"{fault}: {host.name} is {state} already then")
        if crashes:
            comes_back = place + 1 < len(faults)
            _at(
                simulation,
                fault.at_s,
                lambda comes_back=comes_back: host.crash(comes_back=comes_back),  # type: ignore[misc]
                host,
            )
        else:
            _at(simulation, fault.at_s, host.restart, host)


def _on_link(simulation: Simulation, fault: LinkDown | Lossy) -> None:
    cluster = simulation.cluster
    cluster.link(fault.source, fault.target)
    pair = cluster.index(fault.source), cluster.index(fault.target)
    pipe = simulation.pipes[pair]
    if isinstance(fault, Lossy):
        pipe.losses.append(fault)
        pipe.random = stream(simulation.seed, Purpose.LOSSES, *pair)
        return

    def fall() -> None:
        pipe.down += 1
        pipe.drop()

    def rise() -> None:
        pipe.down -= 1

    _at(simulation, fault.from_s, fall)
    if fault.to_s < float("inf"):
        _at(simulation, fault.to_s, rise)
