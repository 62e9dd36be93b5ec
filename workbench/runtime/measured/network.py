"""Links of one node: timed as the simulation times them, with real bytes.

The pipes are the simulation's, so that overheads, schedules, shared uplinks, outages and losses are
what they are there; their kernel follows the clock. Each transfer releases its bytes about every
2 ms, never before they would be through, and the last ones at the instant of its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

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


class Sent(NamedTuple):
    """A transfer that has left, and how much later than it should have."""

    transfer: Transfer
    late_s: float


class Network:
    """Carries the messages of one node, in a thread of its own."""

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
        state = State(cluster, seed, Threads(1), None, env=self.env)
        ends = [Endpoint(state, index, each) for index, each in enumerate(cluster.nodes)]
        self.pipes = {
            target: PacedPipe(
                self,
                ends[node],
                ends[target],
                cluster.links[node, target],
                Uptime(target, faults, cluster.index),
            )
            for target in cluster.targets(node)
        }
        for fault in faults:
            if isinstance(fault, LinkDown | Lossy) and cluster.index(fault.source) == node:
                self.pipes[cluster.index(fault.target)].suffer(fault)
        self._thread = threading.Thread(target=self._serve, name="network", daemon=True)
        self.started = False
        self.failure: BaseException | None = None

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

    def end(self) -> None:
        """Stop where it is, and drop what is under way."""
        self.env.end()
        if self._thread.is_alive():
            self._thread.join()
        for pipe in self.pipes.values():
            pipe.drop()

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, under way, or still to be written."""
        pipes = self.pipes.values()
        quiet = self.env.quiet or not self.started
        return quiet and not any(pipe.current or pipe.channel.busy for pipe in pipes)

    def handed(self) -> dict[tuple[int, int], int]:
        """Messages that were sent to their end, by the target's node and restarts."""
        return {
            (target, restarts): count
            for target, pipe in self.pipes.items()
            for restarts, count in pipe.channel.handed.items()
        }

    def uses(self) -> list[LinkUse]:
        """What each link carried so far."""
        return [
            LinkUse(*ends, pipe.messages, pipe.bytes, pipe.lost, pipe.busy_s)
            for pipe in self.pipes.values()
            for ends in [(pipe.source.name, pipe.target.name)]
        ]


class Sender:
    """A link as the node's own thread sees it."""

    def __init__(self, network: Network, pipe: PacedPipe) -> None:
        self._network, self._pipe = network, pipe

    def send(self, message: Message) -> None:
        """Queue a message; refuse one that cannot be pickled."""
        try:
            packed = pack(message.payload)
        except Exception as error:
            raise UserError(
                f"message {message.topic!r} has a payload that cannot be sent to another process: "
                f"{error}; send arrays, tensors, numbers, text, and tuples, lists or dicts of them"
            ) from error
        self._network.env.pass_on(partial(self._pipe.send, replace(message, payload=packed)))

    def drop(self) -> None:
        """Nothing: as a process ends, its network ends by itself."""


class PacedPipe(Pipe):
    """A pipe that sends the bytes of what it carries."""

    __slots__ = ("bits", "channel", "chunk", "network", "ready_s", "share")

    def __init__(
        self, network: Network, source: Endpoint, target: Endpoint, link: Link, uptime: Uptime
    ) -> None:
        super().__init__(source, target, link)
        self.network = network
        self.channel = Channel(uptime, network.env.clock)
        self.chunk: simpy.Event | None = None
        self.ready_s = self.bits = self.share = 0.0

    def _start(self, message: Message) -> None:
        super()._start(message)
        link, tensors = self.link, message.tensor_bytes
        self.bits = (link.weighted_bytes(tensors) if tensors else message.size_bytes) * 8
        set_up_s = (0.0 if message.control else link.overhead_s) + len(tensors) * link.tensor_s
        self.ready_s, self.share = self.start_s + set_up_s, 0.0
        self.channel.begin(Outgoing(message, self.start_s))
        if self.bits:
            self.chunk = self.env.call_at(self.ready_s + CHUNK_S, self._release)

    def _release(self, _: simpy.Event) -> None:
        """Send the bytes that are through by now."""
        self.share = min(self._through(), 1.0 - 1e-9)
        self.channel.advance(self.share, self.env.now)
        self._write_later()
        self.chunk = self.env.call_at(self.env.now + CHUNK_S, self._release)

    def _through(self) -> float:
        """Share of the message that is through; by the rate now where others share the uplink."""
        now_s, bandwidth = self.env.now, self.bandwidth
        if not self.interfaces:
            if isinstance(bandwidth, Schedule):
                return bandwidth.served(self.ready_s, now_s) / self.bits
            return (now_s - self.ready_s) * bandwidth / self.bits
        rate_bps = bandwidth.at(now_s) if isinstance(bandwidth, Schedule) else bandwidth
        for interface in self.interfaces:
            flows = max(1, len(interface.flows))
            rate_bps = min(rate_bps, interface.capacity.at(now_s) / flows)
        return self.share + CHUNK_S * rate_bps / self.bits

    def _write_later(self) -> None:
        if self.channel.busy:
            at_s = max(self.env.now, self.network.env.clock()) + _RETRY_S
            self.env.call_at(at_s, self._retry)

    def _retry(self, _: simpy.Event) -> None:
        self.channel.flush()
        self._write_later()

    def drop(self) -> None:
        """Lose what is being carried and what waits."""
        if self.current is not None:
            self.channel.drop()
        self._stop_releasing()
        super().drop()

    def _stop_releasing(self) -> None:
        if self.chunk is not None:
            self.env.cancel(self.chunk)
            self.chunk = None

    def _end(self, _: simpy.Event | None = None) -> None:
        message, end_s = self.current, self.env.now
        assert message is not None
        self._stop_releasing()
        self.timer = self.flow = None
        self.messages += 1
        self.bytes += message.size_bytes
        arrives_s = end_s + self.link.latency_s
        lost = bool(self.losses) and self._loses(end_s)
        self.lost += lost or self.channel.uptime.process(arrives_s) is None
        self.state.pending -= 1
        done = partial(self._left, message, self.start_s, end_s)
        self.channel.end(Tail(lost, arrives_s), end_s, done)
        self._write_later()
        if self.queue:
            self._start(self.queue.popleft())
        else:
            self.current = None

    def _left(self, message: Message, start_s: float, due_s: float, left_s: float) -> None:
        """Note when the last byte really left."""
        end_s = max(left_s, due_s)
        self.busy_s += end_s - start_s
        ends, tensors = (self.source.index, self.target.index), len(message.tensor_bytes)
        transfer = Transfer(*ends, message.topic, message.size_bytes, start_s, end_s, tensors)
        self.network.sent(Sent(transfer, end_s - due_s))


def row(transfer: Transfer, names: Sequence[str]) -> Row:
    """A transfer as a row of the trace."""
    source, target = names[transfer.source], names[transfer.target]
    times = transfer.start_s, transfer.end_s
    return (source, f"to {target}", transfer.topic, *times, round(transfer.size_bytes))


def fastest_bps(link: Link) -> float:
    """The highest bandwidth that a link ever has; it may be infinite, for as fast as it goes."""
    bandwidth = link.bandwidth
    return max(bandwidth.values) if isinstance(bandwidth, Schedule) else bandwidth


def without_roomy_downlinks(cluster: Cluster) -> Cluster:
    """Leave out caps on downlinks that cannot bind; refuse those that several links share.

    Who sends does not know what others send to the same node meanwhile, so a shared cap cannot be
    kept by the senders alone.
    """
    nodes = list(cluster.nodes)
    for index, node in enumerate(nodes):
        if node.downlink is None:
            continue
        shares = [link for (_, target), link in cluster.links.items() if target == index]
        most_bps = sum(map(fastest_bps, shares))
        if most_bps <= min(node.downlink.values):
            nodes[index] = replace(node, downlink_bps=None)
        elif len(shares) > 1:
            raise UserError(
                f"downlink_bps of {node.name} is {node.downlink.describe('Mbit/s', 1e-6)}, which "
                f"{len(shares)} links of {most_bps / 1e6:g} Mbit/s together would share; measured "
                "runs share uplinks only. Leave it out, or give the links less bandwidth"
            )
    links: dict[tuple[int | str, int | str], Link] = dict(cluster.links.items())
    return Cluster(nodes, links, raw_samples_may_leave=cluster.raw_samples_may_leave)
