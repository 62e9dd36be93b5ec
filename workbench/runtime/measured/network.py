"""Links of one node: timed as the simulation times them, with real bytes.

The pipes are the simulation's, and so are overheads, schedules, shared interfaces, outages and
losses; their kernel follows the clock. A transfer's bytes are released about every
2 ms, never before they would be through, and the last ones at the instant of its end. Links that
share a capacity with links of other nodes are timed by an arbiter, in the same way.
"""

from __future__ import annotations

import pickle
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from workbench.clusters import Cluster, Link, Schedule
from workbench.runtime.faults import Fault, LinkDown, Lossy, Uptime
from workbench.runtime.measured.capacity import Pair, arbitrated
from workbench.runtime.measured.connection import send_together, takes
from workbench.runtime.measured.frames import GIVEN_UP, End, Frame, Outgoing
from workbench.runtime.measured.packing import pack
from workbench.runtime.measured.realtime import Clock, RealKernel
from workbench.runtime.messages import Message, Transfer
from workbench.runtime.pipe import Endpoint, Pipe, State
from workbench.runtime.run import LinkUse
from workbench.runtime.threads import Threads
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import simpy

CHUNK_S = 0.002
_FLUSH_S = 5.0

Write = tuple[Connection | None, list[Frame], Callable[[], None]]
"""A connection, frames for it, and what to do once they are written."""


class TimedTransfer(NamedTuple):
    """A transfer that has left, and how much later than it should have."""

    transfer: Transfer
    late_s: float


class Progress(Protocol):
    """What a pipe reports of its messages, in their order."""

    def release(self, start_s: float, share: float, at_s: float) -> None:
        """A share of the first message, whose transfer began at `start_s`, is through."""

    def end(self, start_s: float, end: End, end_s: float) -> None:
        """The first message is through."""

    def lose(self, count: int, busy_s: float) -> None:
        """The first messages are lost; the link had been busy with one of them for `busy_s`."""


class Network:
    """The links of one node; a thread times them.

    `announce` passes an arbiter what is queued: the target, when, and the message without its
    payload. `sent` is called for each transfer, from several threads.
    """

    def __init__(
        self,
        cluster: Cluster,
        node: int,
        clock: Clock,
        *,
        seed: int,
        faults: Sequence[Fault],
        sent: Callable[[TimedTransfer], None],
    ) -> None:
        self.env = RealKernel(clock, ideal=True)
        self.announce: Callable[[int, float, Message], None] | None = None
        self.links = {
            target: OutgoingLink(self, cluster, (node, target), faults, sent)
            for target in cluster.targets(node)
        }
        own = {link.pair: link for link in self.links.values()}
        for pair in arbitrated(cluster):
            own.pop(pair, None)
        pipes = paced_pipes(cluster, self.env, seed, faults, own)
        for (_, target), pipe in pipes.items():
            self.links[target].pipe = pipe
        self._thread = threading.Thread(target=self._serve, name="network", daemon=True)
        self._started = False
        self.failure: BaseException | None = None

    @property
    def needs_arbiter(self) -> bool:
        """Whether an arbiter times some of the links."""
        return any(link.pipe is None for link in self.links.values())

    def start(self) -> None:
        """Begin to carry."""
        self._thread.start()
        self._started = True

    def _serve(self) -> None:
        try:
            self.env.serve()
        except BaseException as error:
            self.failure = error
            raise

    def end(self) -> None:
        """Lose what is queued or under way; close the connections once the rest is written."""
        self.env.end()
        if self._thread.is_alive():
            self._thread.join()
        for link in self.links.values():
            link.close()

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, under way, or still to be written."""
        quiet = self.env.quiet or not self._started
        return quiet and not any(link.busy for link in self.links.values())


class OutgoingLink:
    """A link at its source: a queue of messages, of which bytes are written as they are released.

    Each process of the target, the first and those after restarts, has a connection. What is sent
    to a node that is down goes nowhere; a message that meets another process on its way, after a
    restart, is sent to that from its beginning. A thread writes, so that a slow reader delays
    nothing but its own link.
    """

    def __init__(
        self,
        network: Network,
        cluster: Cluster,
        pair: Pair,
        faults: Sequence[Fault],
        sent: Callable[[TimedTransfer], None],
    ) -> None:
        self._network, self.pair, self._sent = network, pair, sent
        self._names = cluster.names[pair[0]], cluster.names[pair[1]]
        self._uptime = Uptime(pair[1], faults, cluster.index)
        self.pipe: Pipe | None = None
        self.connections: dict[int, Connection] = {}  # by the target's restarts
        self.whole: Counter[int] = Counter()  # messages that each of these processes was sent whole
        self._queue: deque[Message] = deque()  # the first one may be under way
        self._outgoing: Outgoing | None = None  # the first one, once some of it is released
        self._to: int | None = None  # the process that has its head
        self._released = 0  # bytes of it
        self._messages, self._lost, self._bytes, self._busy_s = 0, 0, 0.0, 0.0
        self._writes: SimpleQueue[Write | None] = SimpleQueue()
        self._begun = self._done = 0  # writes
        self._thread = threading.Thread(target=self._write_all, name="link", daemon=True)
        self._thread.start()

    # In the thread of the node's program

    def send(self, message: Message) -> None:
        """Queue a message; refuse one that cannot be pickled."""
        try:
            packed = pack(message.payload)
        except Exception as error:
            raise UserError(
                f"message {message.topic!r} has a payload that cannot be sent to another process: "
                f"{error}; send arrays, tensors, numbers, text, and tuples, lists or dicts of them"
            ) from error
        self._network.env.pass_on(partial(self._enqueue, replace(message, payload=packed)))

    @property
    def busy(self) -> bool:
        """Whether anything is queued, under way, or still to be written."""
        return bool(self._queue) or self._begun != self._done

    @property
    def use(self) -> LinkUse:
        """Messages, bytes and busy seconds of the link so far."""
        return LinkUse(*self._names, self._messages, self._bytes, self._lost, self._busy_s)

    def close(self) -> None:
        """Lose what waits, and close the connections once the rest is written."""
        if self._thread.is_alive():
            if self.pipe is not None:
                self.pipe.drop()
            self.lose(len(self._queue), 0.0)
            self._writes.put(None)
            self._thread.join(_FLUSH_S)

    # In the thread of the network

    def _enqueue(self, message: Message) -> None:
        self._queue.append(message)
        if self.pipe is not None:
            self.pipe.send(message)
        else:
            announce = self._network.announce
            assert announce is not None
            announce(self.pair[1], self._network.env.now, replace(message, payload=None))

    def release(self, start_s: float, share: float, at_s: float) -> None:
        """Write up to a share of the first message's bytes."""
        self._write(self._frames(start_s, share, at_s))

    def _frames(self, start_s: float, share: float, at_s: float) -> list[Frame]:
        """Return what is to be written up to a share of the first message's bytes."""
        if self._outgoing is None:
            self._outgoing, self._to = Outgoing(self._queue[0], start_s), None
        message, to = self._outgoing, self._uptime.process(at_s)
        frames: list[Frame] = []
        if to != self._to:
            self._to, self._released = to, 0
            frames.append(message.head)
        upto = message.data_bytes if share >= 1 else int(share * message.data_bytes)
        frames += message.data(self._released, upto)
        self._released = upto
        return frames

    def end(self, start_s: float, end: End, end_s: float) -> None:
        """Write what is left of the first message."""
        frames = self._frames(start_s, 1.0, end_s)
        message, self._outgoing = self._queue.popleft(), None
        if self._to is not None:
            self.whole[self._to] += 1
        self._messages += 1
        self._bytes += message.size_bytes
        self._lost += end.lost or self._uptime.process(end.arrives_s) is None
        self._write([*frames, pickle.dumps(end)], partial(self._note_sent, message, start_s, end_s))

    def lose(self, count: int, busy_s: float) -> None:
        """Give up the first messages."""
        given_up: list[Frame] = [GIVEN_UP] if count and self._outgoing is not None else []
        self._outgoing = None if given_up else self._outgoing
        self._write(given_up, partial(self._add_busy, busy_s))
        self._lost += count
        for _ in range(count):
            self._queue.popleft()

    def _write(self, frames: list[Frame], then: Callable[[], None] = lambda: None) -> None:
        connection = None if self._to is None else self.connections.get(self._to)
        idle = self._begun == self._done
        self._begun += 1
        if idle and (connection is None or takes(connection, sum(map(len, frames)))):
            self._write_now(connection, frames, then)
        else:
            self._writes.put((connection, frames, then))

    # In its own thread, or in that of the network where the thread has nothing to write

    def _write_all(self) -> None:
        try:
            for write in iter(self._writes.get, None):
                self._write_now(*write)
        except BaseException as error:
            self._network.failure = error
            raise
        finally:
            for connection in self.connections.values():
                connection.close()

    def _write_now(
        self, connection: Connection | None, frames: list[Frame], then: Callable[[], None]
    ) -> None:
        if connection is not None:
            try:
                send_together(connection, frames)
            except OSError:  # the other end is gone; what it is sent is lost
                connection.close()
        then()
        self._done += 1

    def _note_sent(self, message: Message, start_s: float, due_s: float) -> None:
        """Note when the last byte really left."""
        end_s = max(self._network.env.clock(), due_s)
        self._add_busy(end_s - start_s)
        size_bytes, tensors = message.size_bytes, len(message.tensor_bytes)
        transfer = Transfer(*self.pair, message.topic, size_bytes, start_s, end_s, tensors)
        self._sent(TimedTransfer(transfer, end_s - due_s))

    def _add_busy(self, seconds: float) -> None:
        self._busy_s += seconds


class PacedPipe(Pipe):
    """A pipe that says when which share of what it carries is through."""

    __slots__ = ("bits", "chunk", "chunk_s", "progress", "ready_s", "share")

    def __init__(
        self, source: Endpoint, target: Endpoint, link: Link, progress: Progress, chunk_s: float
    ) -> None:
        super().__init__(source, target, link)
        self.progress, self.chunk_s = progress, chunk_s
        self.chunk: simpy.Event | None = None
        self.ready_s = self.bits = self.share = 0.0

    def send(self, message: Message) -> None:
        """Carry a message as soon as those before it are through."""
        if self.down:
            self.progress.lose(1, 0.0)
        super().send(message)

    def _start(self, message: Message) -> None:
        super()._start(message)
        link, tensors = self.link, message.tensor_bytes
        self.bits = (link.weighted_bytes(tensors) if tensors else message.size_bytes) * 8
        set_up_s = (0.0 if message.control else link.overhead_s) + len(tensors) * link.tensor_s
        self.ready_s, self.share = self.start_s + set_up_s, 0.0
        if self.bits:
            self.chunk = self.env.call_at(self.ready_s + self.chunk_s, self._release)

    def _release(self, _: simpy.Event) -> None:
        """Release the bytes that are through by now."""
        self.share = min(self._through(), 1.0 - 1e-9)
        self.progress.release(self.start_s, self.share, self.env.now)
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
        carried = self.current is not None
        busy_s = self.env.now - self.start_s if carried else 0.0
        self.progress.lose(len(self.queue) + carried, busy_s)
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
        self.progress.end(self.start_s, End(lost, end_s + self.link.latency_s), end_s)
        if self.queue:
            self._start(self.queue.popleft())
        else:
            self.current = None


def paced_pipes(
    cluster: Cluster,
    env: RealKernel,
    seed: int,
    faults: Iterable[Fault],
    progress: Mapping[Pair, Progress],
    *,
    chunk_s: float = CHUNK_S,
) -> dict[Pair, PacedPipe]:
    """Pipes of some of a cluster's links, with their faults, on one kernel."""
    state = State(cluster, seed, Threads(1), None, env=env)
    ends = [Endpoint(state, index, each) for index, each in enumerate(cluster.nodes)]
    pipes = {
        pair: PacedPipe(ends[pair[0]], ends[pair[1]], cluster.links[pair], each, chunk_s)
        for pair, each in progress.items()
    }
    for fault in faults:
        if isinstance(fault, LinkDown | Lossy):
            pair = cluster.index(fault.source), cluster.index(fault.target)
            if pair in pipes:
                pipes[pair].inject(fault)
    return pipes
