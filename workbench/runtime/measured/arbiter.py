"""Times the links that share a downlink with links of other nodes, in a process of its own.

Who sends does not know what others send to the same node meanwhile. So the nodes announce what they
queue on such links, and when; the arbiter's pipes, which are the simulation's, know all of it, and
it tells the senders which share of a message is through, and when it is. An announcement counts
at the time that it names, even if it comes a little later, as long as nothing later has happened:
messages that follow each other on a link lose no time by it.
"""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from workbench.runtime.faults import Crash
from workbench.runtime.kernel import FIRST
from workbench.runtime.measured.channel import Uptime
from workbench.runtime.measured.frames import FRAME, Kind, Tail, frame
from workbench.runtime.measured.handshake import Caller, connect, receive
from workbench.runtime.measured.network import Line, Network, Pair, arbitrated, paced_pipes
from workbench.runtime.measured.realtime import RealKernel, RunClock
from workbench.runtime.measured.reception import Listener
from workbench.runtime.measured.records import Arbitrated, Place
from workbench.runtime.messages import Message

GONE = "the process that times shared downlinks ended by itself"
GRANT_S = 0.01
"""How often a sender is told which share is through."""


class Arbiter:
    """Runs the pipes of all arbitrated links; its methods are called by the driver."""

    def __init__(self, place: Place) -> None:
        cluster, index = place.cluster, place.cluster.index
        self.clock = RunClock()
        self.env = RealKernel(self.clock, ideal=True)
        self._lines = {pair: _Line(self, pair) for pair in arbitrated(cluster)}
        lines: Mapping[Pair, Line] = self._lines
        self._pipes = paced_pipes(
            cluster, self.env, place.seed, place.faults, lines, chunk_s=GRANT_S
        )
        sources = {source for source, _ in self._pipes}
        self._uptimes = {node: Uptime(node, place.faults, index) for node in sources}
        for fault in place.faults:
            if isinstance(fault, Crash):
                self.env.call_at(fault.at_s, partial(self._crash, index(fault.node)), FIRST)
        self._connections: dict[Caller, socket.socket] = {}
        self._late_s: list[tuple[int, float]] = []
        self.listener = Listener(place.host or "", place.token, self._hear)

    def run(self, began_s: float) -> None:
        """Time messages until the end."""
        self.clock.begin(began_s)
        self.env.serve()

    def end(self) -> Arbitrated:
        """Stop."""
        self.env.end()
        self.listener.close()
        return Arbitrated(self._late_s, self.listener.refused)

    def _crash(self, node: int, _: object) -> None:
        for (source, _target), pipe in self._pipes.items():
            if source == node:
                pipe.drop()

    def _hear(self, connection: socket.socket, caller: Caller) -> None:
        self._connections[caller] = connection
        while True:
            target, at_s, message = _receive(connection)
            self._late_s.append((caller.node, self.clock() - at_s))
            self.env.pass_on(partial(self._queue, caller, target, message), at_s)

    def _queue(self, caller: Caller, target: int, message: Message) -> None:
        if self._uptimes[caller.node].process(self.env.now) == caller.restarts:
            self._lines[caller.node, target].caller = caller
            self._pipes[caller.node, target].send(message)

    def tell(self, caller: Caller | None, *what: object) -> None:
        """Tell a process what becomes of its messages; one that is gone hears nothing."""
        connection = None if caller is None else self._connections.get(caller)
        if connection is not None:
            try:
                _send(connection, what)
            except OSError:
                del self._connections[caller]  # type: ignore[arg-type]


class _Line:
    """The line of a pipe to the process that sends on its link now."""

    def __init__(self, arbiter: Arbiter, pair: Pair) -> None:
        self._arbiter, self._target = arbiter, pair[1]
        self.caller: Caller | None = None

    def begin(self, start_s: float) -> None:
        self._tell("begin", start_s)

    def advance(self, share: float, at_s: float) -> None:
        self._tell("advance", share, at_s)

    def end(self, tail: Tail, end_s: float) -> None:
        self._tell("end", tail, end_s)

    def lose(self, count: int, at_s: float) -> None:
        if count:
            self._tell("lose", count, at_s)

    def _tell(self, *what: object) -> None:
        self._arbiter.tell(self.caller, self._target, *what)


def obey(network: Network, address: tuple[str, int], caller: Caller, token: bytes) -> None:
    """Let an arbiter time the links of a node that it has to; in a thread of its own."""
    connection = connect(address, caller, token)
    network.announce = lambda target, at_s, message: _send(connection, (target, at_s, message))

    def listen() -> None:
        try:
            while True:
                target, name, *arguments = _receive(connection)
                carrier = network.carriers[target]
                network.env.pass_on(partial(getattr(carrier, name), *arguments))
        except OSError:
            if not network.env.ends:
                network.failure = ConnectionError(GONE)
                network.env.end()

    threading.Thread(target=listen, name="grants", daemon=True).start()


def _send(connection: socket.socket, what: object) -> None:
    connection.sendall(frame(Kind.CALL, pickle.dumps(what, protocol=5))[0])


def _receive(connection: socket.socket) -> Any:
    _, length = FRAME.unpack(receive(connection, FRAME.size))
    return pickle.loads(receive(connection, length))
