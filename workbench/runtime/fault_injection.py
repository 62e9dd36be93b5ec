"""Faults put into a simulation before it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import simpy

from workbench.errors import UserError
from workbench.runtime.faults import Crash, Fault, LinkDown, Lossy, Restart, SlowDown
from workbench.runtime.kernel import FIRST
from workbench.runtime.streams import Purpose, stream

if TYPE_CHECKING:
    from workbench.runtime.host import Host
    from workbench.runtime.pipe import Pipe
    from workbench.runtime.state import State


def inject(
    faults: Sequence[Fault],
    state: State,
    hosts: Sequence[Host],
    pipes: Mapping[tuple[int, int], Pipe],
) -> None:
    """Schedule all faults; they come first in their instant, in the order of the list."""
    cluster = state.cluster
    for fault in faults:
        if isinstance(fault, SlowDown):
            host = hosts[cluster.index(fault.node)]
            host.speed = host.speed.scaled(1 / fault.factor, fault.from_s, fault.to_s)
        elif isinstance(fault, LinkDown | Lossy):
            pair = cluster.index(fault.source), cluster.index(fault.target)
            cluster.link(*pair)
            _on_link(state, pipes[pair], fault)
    crashes: dict[int, list[Crash | Restart]] = {}
    for fault in faults:
        if isinstance(fault, Crash | Restart):
            crashes.setdefault(cluster.index(fault.node), []).append(fault)
    for node in sorted(crashes):
        _crashes(state, hosts[node], crashes[node])


def _at(state: State, at_s: float, action: Callable[[], None], node: int | None = None) -> None:
    def act(_: simpy.Event) -> None:
        action()

    state.fault_events[state.env.call(act, FIRST, at_s)] = node


def _crashes(state: State, host: Host, faults: list[Crash | Restart]) -> None:
    faults = sorted(faults, key=lambda fault: fault.at_s)
    for place, fault in enumerate(faults):
        crashes = isinstance(fault, Crash)
        if crashes != (place % 2 == 0):
            there = "up" if place % 2 == 0 else "down"
            raise UserError(f"{fault}: {host.name} is {there} already then")
        if crashes:
            comes_back = place + 1 < len(faults)
            _at(
                state,
                fault.at_s,
                lambda comes_back=comes_back: host.crash(comes_back=comes_back),  # type: ignore[misc]
                host.index,
            )
        else:
            _at(state, fault.at_s, host.restart, host.index)


def _on_link(state: State, pipe: Pipe, fault: LinkDown | Lossy) -> None:
    if isinstance(fault, Lossy):
        pipe.losses.append(fault)
        pipe.random = stream(state.seed, Purpose.LOSSES, pipe.source.index, pipe.target.index)
        return

    def fall() -> None:
        pipe.down += 1
        pipe.drop()

    def rise() -> None:
        pipe.down -= 1

    _at(state, fault.from_s, fall)
    if fault.to_s < float("inf"):
        _at(state, fault.to_s, rise)
