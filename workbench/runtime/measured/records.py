"""What travels between the driver of a run and its processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from workbench.clusters import Cluster
from workbench.runtime.faults import Fault, Uptime
from workbench.runtime.measured.context import WorkTime
from workbench.runtime.measured.network import TimedTransfer
from workbench.runtime.run import LinkUse
from workbench.runtime.trace import Row

Addresses = Mapping[int, Mapping[int, tuple[str, int]]]
"""Host and port of each process of each node: by node, then by restarts."""

Why = Literal["ended", "crashed", "failed", "stopped", "skipped"]


@dataclass(frozen=True)
class Place:
    """Which process of a run this is."""

    cluster: Cluster
    node: int
    restarts: int
    seed: int
    faults: tuple[Fault, ...]
    trace: bool
    as_measured: bool
    until_s: float
    token: bytes
    host: str | None  # None for this machine's own address in a cluster

    @property
    def uptime(self) -> Uptime:
        """Of the node."""
        return Uptime(self.node, self.faults, self.cluster.index)


class Ready(NamedTuple):
    """A process that waits for the start."""

    address: tuple[str, int]
    process: int
    machine: str
    uses_torch: bool


@dataclass(frozen=True)
class Outcome:
    """How a program ended; `result`, `error` and what it has `learnt` are pickled."""

    why: Why
    at_s: float
    result: bytes = b""
    error: bytes = b""
    said: str = ""
    learnt: bytes = b""


class Observation(NamedTuple):
    """What a program recorded; the value is pickled."""

    at_s: float
    node: int
    value: bytes


class Status(NamedTuple):
    """Whether only a message can wake a process, and how many it sent whole and received.

    `waits` says what its program waits for.
    """

    idle: bool
    sent: dict[tuple[int, int], int]  # by the target's node and restarts
    received: int
    waits: list[str]


class ArbiterRecord(NamedTuple):
    """What an arbiter noted: how late it heard of messages, by their node, and who was refused."""

    late_s: Sequence[tuple[int, float]] = ()
    refused: int = 0


@dataclass(frozen=True)
class Record:
    """What a process noted."""

    rows: list[Row]
    uses: list[LinkUse]
    transfers: list[TimedTransfer]
    worked: list[WorkTime]
    events: int
    began_late_s: float
    last_s: float
    refused: int
    observations: list[Observation]
    sent: dict[tuple[int, int], int]
