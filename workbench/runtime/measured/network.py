"""Links of one node: timed as the simulation times them, with real bytes.

The pipes are the simulation's, so that overheads, schedules, shared interfaces, outages and losses
are what they are there; their kernel follows the clock. Each transfer releases its bytes about
every 2 ms, never before they would be through, and the last ones at the instant of its end. Links
that share a downlink with links of other nodes are timed by an arbiter, in the same way.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from workbench.clusters import Cluster, Link, Schedule
from workbench.runtime.faults import Fault, LinkDown, Lossy
from workbench.runtime.measured.channel import Channel, Uptime
from workbench.runtime.measured.frames import Outgoing, Tail
from workbench.runtime.measured.packing import pack
from workbench.runtime.measured.realtime import Clock, RealKernel
from workbench.runtime.messages import Message, Transfer
from workbench.runtime.pipe import Endpoint, Pipe, State
from workbench.runtime.run import LinkUse
from workbench.runtime.threads import Threads
from workbench.runtime.trace import Row
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import simpy

CHUNK_S = 0.002
_RETRY_S = 0.0005

Pair = tuple[int, int]
"""A link, by the indices of its source and its target."""


class Sent(NamedTuple):
    """A transfer that has left, and how much later than it should have."""

    transfer: Transfer
    late_s: float


class Line(Protocol):
    """Where a pipe says what becomes of its messages, in their order."""

    def begin(self, start_s: float) -> None:
        """The transfer of the first one begins."""

    def advance(self, share: float, at_s: float) -> None:
        """A share of it is through."""

    def end(self, tail: Tail, end_s: float) -> None:
        """It is through."""

    def lose(self, count: int, at_s: float) -> None:
        """The first ones are lost, the one that is being carried included."""


class Network:
    """Carries the messages of one node, in a thread of its own.

    `announce` tells an arbiter of a message that is queued: its target, when, and the message
    without its payload.
    """

    def __init__(
        self,
        cluster: Cluster,
        node: int,
        clock: Clock,
        *,
        seed: int,
        faults: Sequence[Fault],
        sent: Callable[[Sent], None],
    ) -> None:
        self.env = RealKernel(clock, ideal=True)
        self.sent = sent
        self.announce: Callable[[int, float, Message], None] | None = None
        self.carriers = {
            target: Carrier(self, cluster, (node, target), Uptime(target, faults, cluster.index))
            for target in cluster.targets(node)
        }
        away = arbitrated(cluster)
        lines = {(node, target): carrier for target, carrier in self.carriers.items()}
        own = {pair: line for pair, line in lines.items() if pair not in away}
        self.pipes = paced_pipes(cluster, self.env, seed, faults, own)
        self._thread = threading.Thread(target=self._serve, name="network", daemon=True)
        self.started = False
        self.failure: BaseException | None = None

    @property
    def needs_arbiter(self) -> bool:
        """Whether an arbiter times some of the links."""
        return len(self.pipes) < len(self.carriers)

    def start(self) -> None:
        """Begin to carry."""
        self._thread.start()
        self.started = True

    def _serve(self) -> None:
        try:
            self.env.serve()
        except BaseException as error:
            self.failure = error
            raise

    def send(self, node: int, target: int, message: Message) -> None:
        """Queue a message, of which the payload is packed; from any thread."""

        def queue() -> None:
            carrier, pipe = self.carriers[target], self.pipes.get((node, target))
            carrier.queue.append(message)
            if pipe is not None:
                pipe.send(message)
            else:
                assert self.announce is not None
                self.announce(target, self.env.now, replace(message, payload=None))

        self.env.pass_on(queue)

    def end(self) -> None:
        """Stop where it is, and drop what is under way."""
        self.env.end()
        if self._thread.is_alive():
            self._thread.join()
        for carrier in self.carriers.values():
            carrier.lose(len(carrier.queue), self.env.now)

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, under way, or still to be written."""
        carriers = self.carriers.values()
        quiet = self.env.quiet or not self.started
        return quiet and not any(each.queue or each.channel.busy for each in carriers)

    def handed(self) -> dict[tuple[int, int], int]:
        """Messages that were sent to their end, by the target's node and restarts."""
        return {
            (target, restarts): count
            for target, carrier in self.carriers.items()
            for restarts, count in carrier.channel.handed.items()
        }

    def uses(self) -> list[LinkUse]:
        """What each link carried so far."""
        return [
            LinkUse(*each.names, each.messages, each.bytes, each.lost, each.busy_s)
            for each in self.carriers.values()
        ]


class Sender:
    """A link as the node's own thread sees it."""

    def __init__(self, network: Network, source: int, target: int) -> None:
        self._queue = partial(network.send, source, target)

    def send(self, message: Message) -> None:
        """Queue a message; refuse one that cannot be pickled."""
        try:
            packed = pack(message.payload)
        except Exception as error:
            raise UserError(
                f"message {message.topic!r} has a payload that cannot be sent to another process: "
                f"{error}; send arrays, tensors, numbers, text, and tuples, lists or dicts of them"
            ) from error
        self._queue(replace(message, payload=packed))

    def drop(self) -> None:
        """Nothing: as a process ends, its network ends by itself."""


class Carrier:
    """Sends the bytes of one link's messages as their times come, and counts them."""

    def __init__(self, network: Network, cluster: Cluster, pair: Pair, uptime: Uptime) -> None:
        self.network, self.pair = network, pair
        self.names = cluster.names[pair[0]], cluster.names[pair[1]]
        self.channel = Channel(uptime, network.env.clock)
        self.queue: deque[Message] = deque()  # the first one may be under way
        self._start_s: float | None = None
        self.messages, self.lost, self.bytes, self.busy_s = 0, 0, 0.0, 0.0

    def begin(self, start_s: float) -> None:
        """Begin with the first message of the queue."""
        self._start_s = start_s
        self.channel.begin(Outgoing(self.queue[0], start_s))

    def advance(self, share: float, at_s: float) -> None:
        """Send up to a share of its bytes."""
        self.channel.advance(share, at_s)
        self._write_later()

    def end(self, tail: Tail, end_s: float) -> None:
        """Send what is left of it."""
        message, start_s = self.queue.popleft(), self._start_s
        assert start_s is not None
        self._start_s = None
        self.messages += 1
        self.bytes += message.size_bytes
        self.lost += tail.lost or self.channel.uptime.process(tail.arrives_s) is None
        self.channel.end(tail, end_s, partial(self._left, message, start_s, end_s))
        self._write_later()

    def lose(self, count: int, at_s: float) -> None:
        """Give up the first messages."""
        if count and self._start_s is not None:
            self.channel.drop()
            self.busy_s += at_s - self._start_s
            self._start_s = None
        self.lost += count
        for _ in range(count):
            self.queue.popleft()

    def _left(self, message: Message, start_s: float, due_s: float, left_s: float) -> None:
        """Note when the last byte really left."""
        end_s = max(left_s, due_s)
        self.busy_s += end_s - start_s
        size_bytes, tensors = message.size_bytes, len(message.tensor_bytes)
        transfer = Transfer(*self.pair, message.topic, size_bytes, start_s, end_s, tensors)
        self.network.sent(Sent(transfer, end_s - due_s))

    def _write_later(self) -> None:
        env = self.network.env
        if self.channel.busy:
            env.call_at(max(env.now, env.clock()) + _RETRY_S, self._retry)

    def _retry(self, _: simpy.Event) -> None:
        self.channel.flush()
        self._write_later()


class PacedPipe(Pipe):
    """A pipe that says when which share of what it carries is through."""

    __slots__ = ("bits", "chunk", "chunk_s", "line", "ready_s", "share")

    def __init__(
        self, source: Endpoint, target: Endpoint, link: Link, line: Line, chunk_s: float
    ) -> None:
        super().__init__(source, target, link)
        self.line, self.chunk_s = line, chunk_s
        self.chunk: simpy.Event | None = None
        self.ready_s = self.bits = self.share = 0.0

    def send(self, message: Message) -> None:
        """Carry a message as soon as those before it are through."""
        if self.down:
            self.line.lose(1, self.env.now)
        super().send(message)

    def _start(self, message: Message) -> None:
        super()._start(message)
        link, tensors = self.link, message.tensor_bytes
        self.bits = (link.weighted_bytes(tensors) if tensors else message.size_bytes) * 8
        set_up_s = (0.0 if message.control else link.overhead_s) + len(tensors) * link.tensor_s
        self.ready_s, self.share = self.start_s + set_up_s, 0.0
        self.line.begin(self.start_s)
        if self.bits:
            self.chunk = self.env.call_at(self.ready_s + self.chunk_s, self._release)

    def _release(self, _: simpy.Event) -> None:
        """Send the bytes that are through by now."""
        self.share = min(self._through(), 1.0 - 1e-9)
        self.line.advance(self.share, self.env.now)
        self.chunk = self.env.call_at(self.env.now + self.chunk_s, self._release)

    def _through(self) -> float:
        """Share of the message that is through; by its rate now where others share with it."""
        now_s, bandwidth = self.env.now, self.bandwidth
        if self.flow is not None:
            rate_bps = self.flow.rate_bps
            return self.share + self.chunk_s * rate_bps / self.bits
        if isinstance(bandwidth, Schedule):
            return bandwidth.served(self.ready_s, now_s) / self.bits
        return (now_s - self.ready_s) * bandwidth / self.bits

    def drop(self) -> None:
        """Lose what is being carried and what waits."""
        self.line.lose(len(self.queue) + (self.current is not None), self.env.now)
        self._stop_releasing()
        super().drop()

    def _stop_releasing(self) -> None:
        if self.chunk is not None:
            self.env.cancel(self.chunk)
            self.chunk = None

    def _end(self, _: simpy.Event | None = None) -> None:
        end_s = self.env.now
        self._stop_releasing()
        self.timer = self.flow = None
        self.state.pending -= 1
        lost = bool(self.losses) and self._loses(end_s)
        self.line.end(Tail(lost, end_s + self.link.latency_s), end_s)
        if self.queue:
            self._start(self.queue.popleft())
        else:
            self.current = None


def paced_pipes(
    cluster: Cluster,
    env: RealKernel,
    seed: int,
    faults: Iterable[Fault],
    lines: Mapping[Pair, Line],
    *,
    chunk_s: float = CHUNK_S,
) -> dict[Pair, PacedPipe]:
    """Pipes of some of a cluster's links, with their faults, on one kernel."""
    state = State(cluster, seed, Threads(1), None, env=env)
    ends = [Endpoint(state, index, each) for index, each in enumerate(cluster.nodes)]
    pipes = {
        pair: PacedPipe(ends[pair[0]], ends[pair[1]], cluster.links[pair], line, chunk_s)
        for pair, line in lines.items()
    }
    for fault in faults:
        if isinstance(fault, LinkDown | Lossy):
            pair = cluster.index(fault.source), cluster.index(fault.target)
            if pair in pipes:
                pipes[pair].suffer(fault)
    return pipes


def row(transfer: Transfer, names: Sequence[str]) -> Row:
    """A transfer as a row of the trace."""
    source, target = names[transfer.source], names[transfer.target]
    times = transfer.start_s, transfer.end_s
    return (source, f"to {target}", transfer.topic, *times, round(transfer.size_bytes), "transfer")


def fastest_bps(link: Link) -> float:
    """The highest bandwidth that a link ever has; it may be infinite, for as fast as it goes."""
    bandwidth = link.bandwidth
    return max(bandwidth.values) if isinstance(bandwidth, Schedule) else bandwidth


def without_roomy_interfaces(cluster: Cluster) -> Cluster:
    """Leave out caps on uplinks and downlinks that all links together cannot fill."""
    nodes = list(cluster.nodes)
    for index, node in enumerate(nodes):
        for at, name, capacity in ((0, "uplink", node.uplink), (1, "downlink", node.downlink)):
            through = [link for pair, link in cluster.links.items() if pair[at] == index]
            if capacity is not None and sum(map(fastest_bps, through)) <= min(capacity.values):
                cap: dict[str, Any] = {f"{name}_bps": None}
                nodes[index] = replace(nodes[index], **cap)
    links: dict[tuple[int | str, int | str], Link] = dict(cluster.links.items())
    return Cluster(nodes, links, raw_samples_may_leave=cluster.raw_samples_may_leave)


def arbitrated(cluster: Cluster) -> set[Pair]:
    """Links that an arbiter times: no node alone knows all that share a capacity with them.

    They are those of a capacity that links of several nodes share, such as a downlink, and all that
    share another one with these.
    """
    users: defaultdict[object, list[Pair]] = defaultdict(list)
    crossed: dict[Pair, list[object]] = {}
    for pair, link in cluster.links.items():
        source, target = (cluster.nodes[node] for node in pair)
        crossed[pair] = [
            *([] if source.uplink is None else [("uplink", pair[0])]),
            *([] if target.downlink is None else [("downlink", pair[1])]),
            *link.shared,
        ]
        for capacity in crossed[pair]:
            users[capacity].append(pair)
    found: set[Pair] = set()
    left = [each for each, pairs in users.items() if len({source for source, _ in pairs}) > 1]
    while left:
        for pair in users.pop(left.pop(), ()):
            if pair not in found:
                found.add(pair)
                left += crossed[pair]
    return found
