"""One node as a process: its program, its links, and what the driver asks of it."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from workbench.runtime.faults import SlowDown
from workbench.runtime.host import Host
from workbench.runtime.measured import packing
from workbench.runtime.measured.arbiter import join_arbiter
from workbench.runtime.measured.connection import Caller, Listener, connect
from workbench.runtime.measured.context import MeasuredContext, Work
from workbench.runtime.measured.frames import Arrival, receive
from workbench.runtime.measured.network import Network, TimedTransfer
from workbench.runtime.measured.realtime import RealKernel, RunClock
from workbench.runtime.measured.records import (
    Addresses,
    Observation,
    Outcome,
    Place,
    Ready,
    Record,
    Status,
)
from workbench.runtime.messages import Transfer
from workbench.runtime.pipe import State
from workbench.runtime.run import failed, states
from workbench.runtime.threads import Threads
from workbench.runtime.trace import Row

_LOOK_S = 0.002


@dataclass(eq=False)
class NodeProcess:
    """Runs one node's program; its methods are called by the driver, from several threads."""

    place: Place
    clock: RunClock = field(default_factory=RunClock)

    def __post_init__(self) -> None:
        place = self.place
        self._transfers: list[TimedTransfer] = []
        self._rows: list[Row] = []
        self._observations: list[Observation] = []
        self._began_late_s = self._last_s = 0.0
        self._called_off = threading.Event()
        self._stopped = False
        self._afterwards: threading.Thread | None = None
        self._work = Work(place.as_measured)
        self.env = RealKernel(self.clock, ideal=False)
        self.network = Network(
            place.cluster,
            place.node,
            self.clock,
            seed=place.seed,
            faults=place.faults,
            sent=self._note_sent,
        )
        self._received: Counter[Caller] = Counter()
        self.listener = Listener(place.host or "", place.token, self._receive)

    # Called by the driver, in this order

    def prepare(self, program: bytes) -> Ready:
        """Make the program, with whatever it holds."""
        made = packing.loads(program) if program else None
        if (warm_up := getattr(made, "warm_up", None)) is not None:
            with suppress(Exception):  # the run itself will say what is wrong
                self._work.do(warm_up)
        place, node = self.place, self.place.cluster.nodes[self.place.node]
        rows = self._rows if place.trace else None
        state = State(
            place.cluster, place.seed, Threads(1), rows, env=self.env, observer=self._observe
        )
        context: Any = partial(MeasuredContext, work=self._work)
        self.host = Host(state, place.node, node, made, context)
        self.host.restarts = place.restarts
        pipes: Any = self.network.links
        self.host.pipes = pipes
        for fault in place.faults:
            if isinstance(fault, SlowDown) and place.cluster.index(fault.node) == place.node:
                factor = 1 / fault.factor
                self.host.speed = self.host.speed.scaled(factor, fault.from_s, fault.to_s)
        uses_torch = "torch" in sys.modules
        return Ready(self.listener.address, os.getpid(), socket.gethostname(), uses_torch)

    def connect(
        self, addresses: Addresses, arbiter: tuple[str, int] | None, *, uses_torch: bool
    ) -> None:
        """Connect with every process of every node that a link leads to, and with the arbiter."""
        if uses_torch:  # some program does, so that tensors may come
            self._work.warm_up()
        caller = Caller(self.place.node, self.place.restarts)
        for target, link in self.network.links.items():
            for restarts, address in addresses[target].items():
                link.connections[restarts] = connect(address, caller, self.place.token)
        if self.network.needs_arbiter:
            assert arbiter is not None
            join_arbiter(self.network, arbiter, caller, self.place.token)
        gc.collect()
        gc.freeze()

    def run(self, began_s: float) -> Outcome:
        """Run the program from its start, or its restart, to its end or the node's crash."""
        self.clock.begin(began_s)
        place = self.place
        from_s, crash_s = place.uptime.lasts(place.restarts)
        wait_s = min(began_s + from_s - time.monotonic(), threading.TIMEOUT_MAX)
        if self._called_off.wait(max(wait_s, 0.0)):
            return Outcome("skipped", self.clock())
        self._began_late_s = self.clock() - from_s
        self.network.start()
        until_s = min(crash_s, place.until_s)
        try:
            self.host.start()
            if self.host.program is not None:
                self.env.serve(until_s, lambda: self.host.ended_s is not None)
        except BaseException as error:
            return self._failed(error)
        if self.host.program is None or self.host.ended_s is not None:
            self._afterwards = threading.Thread(target=self.env.serve, daemon=True)
            self._afterwards.start()  # messages are still delivered
            return self._ended()
        if self._stopped or place.until_s <= crash_s:
            at_s = self.clock()
            self._work.wait()
            return Outcome("stopped", at_s, learnt=self._learnt())
        self.network.end()
        self.listener.close()
        return Outcome("crashed", crash_s, learnt=self._learnt())

    def skip(self) -> None:
        """Do not start after a crash: the program had ended before."""
        self._called_off.set()

    def stop(self) -> None:
        """Stop the program where it waits."""
        self._stopped = True
        self._called_off.set()
        self.env.end()

    def status(self) -> Status:
        """Whether only a message can wake it; raises what its links failed with."""
        if (failure := self.network.failure or self.listener.failure) is not None:
            raise failure
        idle = self.host.ended_s is not None or self.host.program is None
        idle = idle or (self.env.idle and not self._work.pending)
        idle = idle and self.network.idle
        waits = states(self.host, self.place.cluster.names)
        return Status(idle, self._sent(), self._received.total(), waits)

    def _sent(self) -> dict[tuple[int, int], int]:
        """Messages that were sent to their end, by the target's node and restarts."""
        return {
            (target, restarts): count
            for target, link in self.network.links.items()
            for restarts, count in link.whole.items()
        }

    def drain(self) -> bool:
        """Wait until all that was sent is through, and say so to the others; not after a crash."""
        _, crash_s = self.place.uptime.lasts(self.place.restarts)
        end_s = min(crash_s, self.place.until_s)
        while not self.network.idle:
            if self.network.failure is not None or self._stopped or self.clock() >= end_s:
                break
            time.sleep(_LOOK_S)
        self.network.end()
        return self.network.failure is None

    def collect(self, patience_s: float) -> Record:
        """Wait for what the others sent, end, and return what was noted."""
        self.listener.wait_for_last(patience_s)
        self.env.end()
        if self._afterwards is not None:
            self._afterwards.join()
        if self.host.main is not None:
            self.host.cancel()
        self.network.end()
        self.listener.close()
        self._work.close()
        return Record(
            self._rows,
            [link.use for link in self.network.links.values()],
            self._transfers,
            self._work.done,
            self.env.events + self.network.env.events,
            self._began_late_s,
            self._last_s,
            self.listener.refused,
            self._observations,
            self._sent(),
        )

    # What happens in a run

    def _observe(self, at_s: float, node: int, value: Any) -> None:
        self._observations.append(Observation(at_s, node, packing.dumps(value)))

    def _note_sent(self, sent: TimedTransfer) -> None:
        transfer, names = sent.transfer, self.place.cluster.names
        self._transfers.append(sent)
        if self.place.trace:
            times_s, size = (transfer.start_s, transfer.end_s), round(transfer.size_bytes)
            lane = f"to {names[transfer.target]}"
            where = names[transfer.source], lane, transfer.topic
            self._rows.append((*where, *times_s, size, "transfer"))
        self.env.pass_on(partial(self._watched, transfer))

    def _watched(self, transfer: Transfer) -> None:
        for watcher in self.host.watchers:
            watcher.append(transfer)

    def _receive(self, connection: Connection, caller: Caller) -> None:
        """Receive what comes over a connection; in a thread of its own."""
        while True:
            arrival = receive(connection)
            if arrival is not None:
                at_s = self.clock()
                if not arrival.end.lost:
                    self._last_s = max(self._last_s, at_s, arrival.end.arrives_s)
                self.env.pass_on(partial(self._arrive, arrival, at_s))
                self._received[caller] += 1

    def _arrive(self, arrival: Arrival, at_s: float) -> None:
        message, start_s, end = arrival
        ends, size_bytes = (message.sender, self.place.node), message.size_bytes
        tensors = len(message.tensor_bytes)
        self._watched(Transfer(*ends, message.topic, size_bytes, start_s, at_s, tensors))
        if end.lost:
            return
        if end.arrives_s > self.env.now:
            self.env.call_at(end.arrives_s, lambda _: self.host.mailbox.deliver(message))
        else:
            self.host.mailbox.deliver(message)

    def _ended(self) -> Outcome:
        at_s = self.host.ended_s or 0.0
        result = self.host.state.results.get(self.place.node)
        try:
            return Outcome("ended", at_s, result=packing.dumps(result), learnt=self._learnt())
        except Exception as error:
            said = (
                f"program of {self.host.name} (node {self.host.index}) returned what cannot be "
                f"sent to another process: {error}"
            )
            return Outcome("failed", at_s, said=said)

    def _learnt(self) -> bytes:
        learnt = self.host.learnt()
        return packing.dumps(learnt[self.place.node]) if learnt else b""

    def _failed(self, error: BaseException) -> Outcome:
        at_s, host = self.clock(), self.host
        failure = host.state.failure
        cause = error if failure is None else failure[1]
        cause.add_note("".join(traceback.format_exception(cause)))
        learnt, pickled = b"", b""
        with suppress(Exception):  # it may have failed halfway
            learnt = self._learnt()
        with suppress(Exception):
            pickled = packing.dumps(cause)
        return Outcome("failed", at_s, error=pickled, said=failed(host, at_s, cause), learnt=learnt)
