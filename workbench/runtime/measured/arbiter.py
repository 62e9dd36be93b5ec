"""Times links that share a capacity with links of other nodes, in a process of its own.

Who sends does not know what others send meanwhile. So the nodes announce what they queue on such
links, and when; the arbiter's pipes, which are the simulation's, know all of it, and it says to the
senders which share of a message is through, and when it is. An announcement counts at the time that
it names, even if it comes a little later, as long as nothing later has happened: messages that
follow each other on a link lose no time by it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from workbench.runtime.faults import Crash, Uptime
from workbench.runtime.kernel import FIRST
from workbench.runtime.measured.capacity import Pair, arbitrated
from workbench.runtime.measured.connection import Caller, Listener, connect
from workbench.runtime.measured.frames import End
from workbench.runtime.measured.network import Network, paced_pipes
from workbench.runtime.measured.realtime import RealKernel, RunClock
from workbench.runtime.measured.records import ArbiterRecord, Place
from workbench.runtime.messages import Message

GONE = "the process that times shared links ended by itself"
GRANT_S = 0.01
"""How often a sender hears which share is through."""


class Arbiter:
    """Runs the pipes of all arbitrated links; its methods are called by the driver."""

    def __init__(self, place: Place) -> None:
        cluster, index = place.cluster, place.cluster.index
        self.clock = RunClock()
        self.env = RealKernel(self.clock, ideal=True)
        self._links = {pair: _RemoteLink(pair) for pair in arbitrated(cluster)}
        self._pipes = paced_pipes(
            cluster, self.env, place.seed, place.faults, self._links, chunk_s=GRANT_S
        )
        sources = {source for source, _ in self._pipes}
        self._uptimes = {node: Uptime(node, place.faults, index) for node in sources}
        for fault in place.faults:
            if isinstance(fault, Crash):
                self.env.call_at(fault.at_s, partial(self._crash, index(fault.node)), FIRST)
        self._late_s: list[tuple[int, float]] = []
        self.listener = Listener(place.host or "", place.token, self._hear)

    def run(self, began_s: float) -> None:
        """Time messages until the end."""
        self.clock.begin(began_s)
        self.env.serve()

    def end(self) -> ArbiterRecord:
        """Stop."""
        self.env.end()
        self.listener.close()
        return ArbiterRecord(self._late_s, self.listener.refused)

    def _crash(self, node: int, _: object) -> None:
        for (source, _target), pipe in self._pipes.items():
            if source == node:
                pipe.drop()

    def _hear(self, connection: Connection, caller: Caller) -> None:
        while True:
            target, at_s, message = connection.recv()
            self._late_s.append((caller.node, self.clock() - at_s))
            queue = partial(self._queue, connection, caller, (caller.node, target), message)
            self.env.pass_on(queue, at_s)

    def _queue(self, connection: Connection, caller: Caller, pair: Pair, message: Message) -> None:
        if self._uptimes[caller.node].process(self.env.now) == caller.restarts:
            self._links[pair].connection = connection
            self._pipes[pair].send(message)


class _RemoteLink:
    """A link of another process, which receives the progress of its messages."""

    def __init__(self, pair: Pair) -> None:
        self._target = pair[1]
        self.connection: Connection | None = None

    def release(self, *progress: float) -> None:
        self._tell("release", *progress)

    def end(self, start_s: float, end: End, end_s: float) -> None:
        self._tell("end", start_s, end, end_s)

    def lose(self, count: int, busy_s: float) -> None:
        if count:
            self._tell("lose", count, busy_s)

    def _tell(self, *progress: Any) -> None:
        if self.connection is not None:
            with suppress(OSError):  # a process that is gone hears nothing
                self.connection.send((self._target, *progress))


def join_arbiter(network: Network, address: tuple[str, int], caller: Caller, token: bytes) -> None:
    """Let an arbiter time the links of a node that it has to; in a thread of its own."""
    connection = connect(address, caller, token)
    network.announce = lambda *announcement: connection.send(announcement)

    def listen() -> None:
        try:
            while True:
                target, name, *progress = connection.recv()
                network.env.pass_on(partial(getattr(network.links[target], name), *progress))
        except (OSError, EOFError):
            if not network.env.ends:
                network.failure = ConnectionError(GONE)
                network.env.end()

    threading.Thread(target=listen, name="arbiter", daemon=True).start()
