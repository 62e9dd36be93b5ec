"""The links of a running simulation, its nodes as these see them, and what all parts share."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import simpy
from simpy.events import Timeout

from workbench.clusters import Cluster, Link, Node, Schedule, SharedCapacity
from workbench.runtime.faults import LinkDown, Lossy, Purpose, stream
from workbench.runtime.flows import Capacity, Flow, parts
from workbench.runtime.kernel import FIRST, Kernel, refuse_endless
from workbench.runtime.messages import Mailbox, Message, Transfer
from workbench.runtime.sharing import FairSharing
from workbench.runtime.threads import Threads
from workbench.runtime.trace import Row

if TYPE_CHECKING:
    import numpy as np

    from workbench.runtime.context import Observer


@dataclass(eq=False)
class State:
    """The state of a run, which its nodes and links read and change.

    `rows` are those of the trace, None if nothing is recorded; `delivered_s` and `ended_s` when the
    last message arrived and the last program or task ended; `pending` counts programs that run or
    will restart, and messages on their way; `failure` is the node whose program failed, and its
    exception; `fault_events` are events of faults, with the node that one may restart; `observer`
    takes what programs record.
    """

    cluster: Cluster
    seed: int
    threads: Threads
    rows: list[Row] | None
    env: Kernel = field(default_factory=Kernel)
    results: dict[int, Any] = field(default_factory=dict)
    delivered_s: float = 0.0
    ended_s: float = 0.0
    pending: int = 0
    failure: tuple[int, BaseException] | None = None
    fault_events: dict[simpy.Event, int | None] = field(default_factory=dict)
    observer: Observer | None = None

    def __post_init__(self) -> None:
        self.sharing = FairSharing(self.env)
        self.shared: dict[SharedCapacity, Capacity] = {}

    def capacity(self, shared: SharedCapacity) -> Capacity:
        """The capacity of this run that links share."""
        if shared not in self.shared:
            self.shared[shared] = Capacity(shared.bandwidth)
        return self.shared[shared]


class Endpoint:
    """A node as its links see it.

    `uplink` and `downlink` are None where the interface is not limited, `watchers` lists that grow
    by each transfer from or to the node; `up` is False from a crash to the restart.
    """

    def __init__(self, state: State, index: int, node: Node) -> None:
        self.state, self.index, self.name = state, index, node.name
        self.uplink = None if node.uplink is None else Capacity(node.uplink)
        self.downlink = None if node.downlink is None else Capacity(node.downlink)
        self.mailbox = Mailbox(state.env)
        self.watchers: list[list[Transfer]] = []
        self.up = True


class Pipe:
    """Carries messages from one node to another, first in, first out.

    A transfer takes the link's overhead, then its bytes over the bandwidth; it ends, the next
    begins, and the message arrives the latency later. Where a node's interface is limited, or the
    link shares a capacity with others, the bytes flow at a max-min fair rate; the overhead takes
    nothing from others. A link that goes down loses what it carries, what waits and all that is
    sent meanwhile.
    """

    __slots__ = (
        "bandwidth", "busy_s", "bytes", "crossed", "current", "down", "env", "flow", "lane", "link",
        "losses", "lost", "messages", "queue", "random", "shared", "source", "start_s", "state",
        "target", "timer",
    )  # fmt: skip

    def __init__(self, source: Endpoint, target: Endpoint, link: Link) -> None:
        self.state, self.env = source.state, source.state.env
        self.source, self.target, self.link = source, target, link
        self.bandwidth = link.bandwidth
        self.lane = f"to {target.name}"
        interfaces = (each for each in (source.uplink, target.downlink) if each is not None)
        self.shared = (*interfaces, *map(self.state.capacity, link.shared))
        self.queue: deque[Message] = deque()
        self.current: Message | None = None
        self.start_s = 0.0
        self.timer: Timeout | None = None
        self.flow: Flow | None = None
        self.down = 0
        self.losses: list[Lossy] = []
        self.random: np.random.Generator | None = None
        self.crossed: tuple[Capacity, ...] | None = None
        self.messages, self.lost, self.bytes, self.busy_s = 0, 0, 0.0, 0.0

    def send(self, message: Message) -> None:
        """Carry a message as soon as those before it are through."""
        if self.down:
            self.lost += 1
            return
        self.state.pending += 1
        if self.current is None:
            self._start(message)
        else:
            self.queue.append(message)

    def drop(self) -> None:
        """Lose what is being carried and what waits."""
        carried = self.current is not None
        if self.timer is not None:
            self.env.cancel(self.timer)
        if self.flow is not None:
            self.state.sharing.leave(self.flow)
        lost = len(self.queue) + carried
        if carried:
            self.busy_s += self.env.now - self.start_s
        self.current = self.timer = self.flow = None
        self.queue.clear()
        self.lost += lost
        self.state.pending -= lost

    def inject(self, fault: LinkDown | Lossy) -> None:
        """Have a fault at its time."""
        if isinstance(fault, Lossy):
            self.losses.append(fault)
            ends = self.source.index, self.target.index
            self.random = stream(self.state.seed, Purpose.LOSSES, *ends)
            return

        def fall(_: simpy.Event) -> None:
            self.down += 1
            self.drop()

        def rise(_: simpy.Event) -> None:
            self.down -= 1

        for at_s, act in ((fault.from_s, fall), (fault.to_s, rise)):
            if at_s < math.inf:
                self.state.fault_events[self.env.call_at(at_s, act, FIRST)] = None

    def _start(self, message: Message) -> None:
        self.current = message
        link, bandwidth, start_s = self.link, self.bandwidth, self.env.now
        self.start_s = start_s
        bits, set_up_s = message.size_bytes * 8, 0.0 if message.control else link.overhead_s
        if message.tensor_bytes:
            bits = link.weighted_bytes(message.tensor_bytes) * 8
            set_up_s += len(message.tensor_bytes) * link.tensor_s
        took_s = set_up_s
        then: Callable[[simpy.Event], None] = self._flow
        if not (self.shared and bits):
            if isinstance(bandwidth, Schedule):
                transfer_s = bandwidth.seconds_for(bits, start_s + set_up_s)
            else:
                transfer_s = bits / bandwidth
            took_s, then = set_up_s + transfer_s, self._end
        if not start_s + took_s + link.latency_s < math.inf:
            ends = f"from {self.source.name} to {self.target.name}"
            refuse_endless(f"message {message.topic!r} of {message.size_bytes:g} bytes {ends}")
        self.timer = Timeout(self.env, took_s, bits)
        self.timer.callbacks.append(then)

    def _flow(self, event: simpy.Event) -> None:
        bits: Any = event.value
        self.timer = None
        if self.crossed is None:  # not before, as few of many links may carry anything
            self.crossed = _crossed(self.bandwidth, self.shared)
        self.flow = Flow(self.crossed, bits, self._end)
        self.state.sharing.join(self.flow)

    def _end(self, _: simpy.Event | None = None) -> None:
        message, end_s = self.current, self.env.now
        assert message is not None
        self.timer = self.flow = None
        self.messages += 1
        self.bytes += message.size_bytes
        self.busy_s += end_s - self.start_s
        source, target, size_bytes = self.source, self.target, message.size_bytes
        if (rows := self.state.rows) is not None:
            times_s, size = (self.start_s, end_s), round(size_bytes)
            rows.append((source.name, self.lane, message.topic, *times_s, size, "transfer"))
        if source.watchers or target.watchers:
            ends, times = (source.index, target.index), (self.start_s, end_s)
            tensors = len(message.tensor_bytes)
            transfer = Transfer(*ends, message.topic, size_bytes, *times, tensors)
            for watcher in (*source.watchers, *target.watchers):
                watcher.append(transfer)
        if self.queue:
            self._start(self.queue.popleft())
        else:
            self.current = None
        if self.losses and self._loses(end_s):
            self.lost += 1
            self.state.pending -= 1
        elif self.link.latency_s:
            Timeout(self.env, self.link.latency_s, message).callbacks.append(self._arrive)
        else:
            self._deliver(message)

    def _loses(self, at_s: float) -> bool:
        assert self.random is not None
        draws = [self.random.random() for _ in self.losses]
        return any(
            loss.from_s <= at_s < loss.to_s and draw < loss.probability
            for loss, draw in zip(self.losses, draws, strict=True)
        )

    def _arrive(self, event: simpy.Event) -> None:
        message: Any = event.value
        self._deliver(message)

    def _deliver(self, message: Message) -> None:
        self.state.pending -= 1
        self.state.delivered_s = self.env.now
        if self.target.up:
            self.target.mailbox.deliver(message)
        else:
            self.lost += 1


def _crossed(bandwidth: float | Schedule, shared: tuple[Capacity, ...]) -> tuple[Capacity, ...]:
    """Return the capacities of a flow; its own link is left out where it never limits."""
    if not isinstance(bandwidth, Schedule) and (
        bandwidth == math.inf
        or any(each.schedule is None and each.total <= parts(bandwidth) for each in shared)
    ):
        return shared
    return (Capacity(bandwidth), *shared)
