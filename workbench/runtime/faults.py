"""Faults of a run, as data; `draw_faults` draws them from a seed."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from workbench.clusters.cluster import Cluster, Name, check_cluster
from workbench.runtime.trace import Row
from workbench.utils.checks import UserError, check_number, check_whole, whole

if TYPE_CHECKING:
    import numpy as np

MOST_FAULTS = 1_000_000


class Purpose(IntEnum):
    """First part of a stream's key; `workbench.training.repeatable` and data sets have 0 to 15."""

    PROGRAM = 16
    LOSSES = 17
    CRASHES = 18
    SLOW_DOWNS = 19
    OUTAGES = 20


def stream(seed: int, purpose: Purpose, *which: int) -> np.random.Generator:
    """Return the generator of a purpose, and of a node, link or restart.

    The numbers are a spawn key: put into the seed itself, zeros would be lost, since NumPy fills a
    seed up with zeros, so that [7], [7, 0] and [7, 0, 0] are the same.
    """
    import numpy as np

    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *which)))


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at a time."""

    def __post_init__(self) -> None:
        values = vars(self)
        for name, value in values.items():
            is_node = name in ("node", "source", "target")
            if is_node and not isinstance(value, str) and whole(value) is None:
                raise UserError(f"{self}: {value!r} is not a node; give its index or its name")
            if name.endswith("_s"):
                check_number(f"{name} of {self}", value)
        if "at_s" in values and not 0 <= values["at_s"] < math.inf:
            raise UserError(f"{self}: at_s must be finite and not negative")
        from_s, to_s = values.get("from_s", 0.0), values.get("to_s", math.inf)
        if not (0 <= from_s < math.inf and from_s < to_s):
            raise UserError(f"{self}: from_s must be finite, not negative, and before to_s")


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


@dataclass(frozen=True)
class SlowDown(Fault):
    """A node computes `factor` times slower between two times."""

    node: Name
    from_s: float
    to_s: float
    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < check_number(f"factor of {self}", self.factor) < math.inf:
            raise UserError(f"factor of {self} must be above 0 and finite: how many times slower")


@dataclass(frozen=True)
class LinkDown(Fault):
    """A link carries nothing between two times: what it carries, queues or is given is lost.

    A message that only the link's latency still delays arrives. For an outage that only delays,
    give the link a bandwidth `Schedule` with zeros.
    """

    source: Name
    target: Name
    from_s: float
    to_s: float = math.inf


@dataclass(frozen=True)
class Lossy(Fault):
    """A link carries messages but loses each with a probability, drawn from the run's seed."""

    source: Name
    target: Name
    probability: float
    from_s: float = 0.0
    to_s: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= check_number(f"probability of {self}", self.probability) <= 1:
            raise UserError(f"probability of {self} must be between 0 and 1")


def check_faults(faults: Any) -> tuple[Fault, ...]:
    """Return faults as a tuple; refuse a single fault, or anything else."""
    if isinstance(faults, str | Fault | Set | Mapping) or not isinstance(faults, Iterable):
        raise UserError(
            f"faults is {faults!r}; give a list, such as [Crash('worker0', at_s=5)], since those "
            "of one instant happen in their order"
        )
    listed = tuple(faults)
    for fault in listed:
        if not isinstance(fault, Crash | Restart | SlowDown | LinkDown | Lossy):
            raise UserError(f"{fault!r}: give a Crash, Restart, SlowDown, LinkDown or Lossy")
    return listed


def draw_faults(
    seed: int,
    cluster: Cluster,
    *,
    until_s: float,
    crash_every_s: float | None = None,
    down_s: float = 60.0,
    slow_every_s: float | None = None,
    slow_s: float = 60.0,
    slow_factor: float = 2.0,
    link_down_every_s: float | None = None,
    link_down_s: float = 10.0,
) -> tuple[Fault, ...]:
    """Draw crashes, slow-downs and outages of links, at exponential intervals.

    Every node and every link has draws of its own, so a cluster that grows keeps the faults of
    the nodes and links that it had, as long as their indices stay.

    Parameters
    ----------
    until_s
        No fault begins later.
    crash_every_s, slow_every_s, link_down_every_s
        Mean seconds between the end of one fault of a node or link and the next; None for none.
    down_s, slow_s, link_down_s
        Mean seconds that one lasts.
    slow_factor
        How many times slower.
    """
    number = check_whole("seed", seed, 0)
    check_cluster(cluster)
    numbers = {"until_s": until_s, "down_s": down_s, "slow_s": slow_s, "slow_factor": slow_factor}
    numbers["link_down_s"] = link_down_s
    every = {"crash": crash_every_s, "slow": slow_every_s, "link_down": link_down_every_s}
    numbers |= {f"{kind}_every_s": mean_s for kind, mean_s in every.items() if mean_s is not None}
    for name, value in numbers.items():
        if not 0 < check_number(name, value) < math.inf:
            raise UserError(f"{name} is {value}; it must be above 0 and finite")
    nodes, links = len(cluster), len(cluster.links)
    lasting = (nodes, down_s), (nodes, slow_s), (links, link_down_s)
    expected = sum(
        count * until_s / (every_s + length_s)
        for every_s, (count, length_s) in zip(every.values(), lasting, strict=True)
        if every_s is not None
    )
    if expected > MOST_FAULTS:
        raise UserError(
            f"about {expected:.3g} faults would be drawn for {nodes} nodes and {links} links until "
            f"{until_s:g} s; at most {MOST_FAULTS:,} are. Give a shorter until_s, or longer times "
            "between faults"
        )

    def intervals(
        every_s: float | None, length_s: float, purpose: Purpose, *which: int
    ) -> Iterator[tuple[float, float]]:
        if every_s is None:
            return
        random = stream(number, purpose, *which)
        at_s = float(random.exponential(every_s))
        while at_s < until_s:
            end_s = at_s + max(float(random.exponential(length_s)), 1e-9)
            yield at_s, end_s
            at_s = end_s + float(random.exponential(every_s))

    faults: list[Fault] = []
    for node in range(nodes):
        for from_s, to_s in intervals(crash_every_s, down_s, Purpose.CRASHES, node):
            faults += [Crash(node, from_s), Restart(node, to_s)]
        for from_s, to_s in intervals(slow_every_s, slow_s, Purpose.SLOW_DOWNS, node):
            faults.append(SlowDown(node, from_s, to_s, slow_factor))
    for pair in cluster.links:
        for from_s, to_s in intervals(link_down_every_s, link_down_s, Purpose.OUTAGES, *pair):
            faults.append(LinkDown(*pair, from_s, to_s))
    return tuple(faults)


class Uptime:
    """When a node is up, by its crashes and restarts, and in which of its processes."""

    def __init__(
        self, node: int, faults: Iterable[Fault], index: Callable[[int | str], int]
    ) -> None:
        self.times_s = sorted(
            fault.at_s
            for fault in faults
            if isinstance(fault, Crash | Restart) and index(fault.node) == node
        )

    @property
    def processes(self) -> int:
        """Number of processes over a run: one more after each restart."""
        return 1 + len(self.times_s) // 2

    def process(self, at_s: float) -> int | None:
        """Number of restarts by a time; None while the node is down."""
        changes = sum(time_s <= at_s for time_s in self.times_s)
        return None if changes % 2 else changes // 2

    def lasts(self, restarts: int) -> tuple[float, float]:
        """Start and end of the process that begins after a number of restarts."""
        edges_s = [0.0, *self.times_s, math.inf]
        return edges_s[2 * restarts], edges_s[2 * restarts + 1]


def fault_rows(faults: Iterable[Fault], cluster: Cluster, end_s: float) -> list[Row]:
    """Rows of a trace that ends at `end_s`, one for each fault that had begun by then."""

    def row(node: Name, label: str, from_s: float, to_s: float) -> Row:
        name, to_s = cluster.names[cluster.index(node)], min(to_s, end_s)
        return (name, "fault", label, from_s, to_s, 0, "fault")

    back_s: dict[int, list[float]] = {}
    for fault in faults:
        if isinstance(fault, Restart):
            insort(back_s.setdefault(cluster.index(fault.node), []), fault.at_s)
    rows = []
    for fault in faults:
        if isinstance(fault, Crash):
            times_s = back_s.get(cluster.index(fault.node), [])
            place = bisect_left(times_s, fault.at_s)
            up_s = times_s[place] if place < len(times_s) else end_s
            rows.append(row(fault.node, "down", fault.at_s, up_s))
        elif isinstance(fault, SlowDown):
            label = f"{fault.factor:g} times slower"
            rows.append(row(fault.node, label, fault.from_s, fault.to_s))
        elif isinstance(fault, LinkDown | Lossy):
            what = "down" if isinstance(fault, LinkDown) else "lossy"
            label = f"link to {cluster.names[cluster.index(fault.target)]} {what}"
            rows.append(row(fault.source, label, fault.from_s, fault.to_s))
    return [entry for entry in rows if entry[3] <= entry[4]]
