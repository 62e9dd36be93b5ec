"""A process that listens, and what has come."""

from __future__ import annotations

import socket
import threading

from workbench.runtime.measured.handshake import Caller, connect, new_token
from workbench.runtime.measured.reception import Arrival, Reception


class Listening:
    """A reception that takes messages while it may go on, and those that arrived."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.some = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.token = new_token()
        self.reception = Reception("127.0.0.1", self.token, self._note)

    def _note(self, arrival: Arrival) -> None:
        self.may_go_on.wait()
        self.arrivals.append(arrival)
        self.some.release()

    def connect(self, node: int = 0) -> socket.socket:
        """As a peer that knows the token."""
        return connect(self.reception.address, Caller(node, 0), self.token)

    def close(self) -> None:
        self.may_go_on.set()
        self.reception.close()
