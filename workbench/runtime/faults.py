"""Faults of a run, as data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from workbench.checks import check_number, whole
from workbench.clusters.cluster import Name
from workbench.errors import UserError


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at a time."""


@dataclass(frozen=True)
class Crash(Fault):
    """A node stops at `at_s`: its program and all tasks of it end at once.

    Lost are its memory, its unread messages, those in its queues, the one that a link carries for
    it, and whatever reaches it until a `Restart`; without one it stays down. A message that only
    the link's latency still delays arrives. The trace keeps what had ended.

    Other nodes see only silence; `Context.receive` has a `timeout_s` for that. A program that has
    ended before keeps its result; messages to its node are lost.
    """

    node: Name
    at_s: float

    def __post_init__(self) -> None:
        _check_nodes(self, self.node)
        _instant(self, self.at_s)


@dataclass(frozen=True)
class Restart(Fault):
    """A crashed node comes back at `at_s`, and its program starts from the beginning.

    It keeps what is outside the node: the cluster, objects that programs share (a checkpoint, in a
    closure, say), and `Context.node`, `name` and `peers`. It loses its variables, tasks, unread
    messages and the lists from `Context.watch`; the program gets a new `Context` whose `restarts`
    is one higher and whose `random` draws other numbers. Peers do not notice: those that go on
    where they were need a message from the program. A program that had ended before the crash does
    not start again.
    """

    node: Name
    at_s: float

    def __post_init__(self) -> None:
        _check_nodes(self, self.node)
        _instant(self, self.at_s)


@dataclass(frozen=True)
class SlowDown(Fault):
    """A node computes `factor` times slower between two times."""

    node: Name
    from_s: float
    to_s: float
    factor: float

    def __post_init__(self) -> None:
        _check_nodes(self, self.node)
        _interval(self, self.from_s, self.to_s)
        if not 0 < check_number(f"factor of {self}", self.factor) < math.inf:
            raise UserError(f"factor of {self} must be above 0 and finite: how many times slower")


@dataclass(frozen=True)
class LinkDown(Fault):
    """A link carries nothing between two times: what it carries, queues or is given is lost.

    A message that only the link's latency still delays arrives.

    For an outage that only delays, give the link a bandwidth `Schedule` with zeros.
    """

    source: Name
    target: Name
    from_s: float
    to_s: float = math.inf

    def __post_init__(self) -> None:
        _check_nodes(self, self.source, self.target)
        _interval(self, self.from_s, self.to_s)


@dataclass(frozen=True)
class Lossy(Fault):
    """A link carries messages but loses each with a probability, drawn from the run's seed."""

    source: Name
    target: Name
    probability: float
    from_s: float = 0.0
    to_s: float = math.inf

    def __post_init__(self) -> None:
        _check_nodes(self, self.source, self.target)
        _interval(self, self.from_s, self.to_s)
        if not 0 <= check_number(f"probability of {self}", self.probability) <= 1:
            raise UserError(f"probability of {self} must be between 0 and 1")


def _check_nodes(fault: object, *nodes: Any) -> None:
    for node in nodes:
        if not isinstance(node, str) and whole(node) is None:
            raise UserError(f"{fault}: {node!r} is no node; give its index or its name")


def _instant(fault: object, at_s: float) -> None:
    if not 0 <= check_number(f"at_s of {fault}", at_s) < math.inf:
        raise UserError(f"{fault}: at_s must be finite and not negative")


def _interval(fault: object, from_s: float, to_s: float) -> None:
    for name, seconds in (("from_s", from_s), ("to_s", to_s)):
        check_number(f"{name} of {fault}", seconds)
    if not (0 <= from_s < math.inf and from_s < to_s):
        raise UserError(f"{fault}: from_s must be finite, not negative, and before to_s")


def check_faults(faults: Any) -> tuple[Fault, ...]:
    """Return faults as a tuple.

    Raises ValueError: a single fault, or anything that is no fault.
    """
    if isinstance(faults, str | Fault | Set | Mapping) or not isinstance(faults, Iterable):
        raise UserError(
            f"faults is {faults!r}; give a list, such as [Crash('worker0', at_s=5)], since those "
            "of one instant happen in their order"
        )
    found = tuple(faults)
    for fault in found:
        if not isinstance(fault, Crash | Restart | SlowDown | LinkDown | Lossy):
            raise UserError(
                f"{fault!r} is no fault; give Crash, Restart, SlowDown, LinkDown or Lossy"
            )
    return found
