"""A process that listens, and what has come."""

from __future__ import annotations

import threading
from multiprocessing.connection import Connection

from workbench.runtime.measured.connection import Caller, Listener, connect, new_token
from workbench.runtime.measured.frames import Arrival, receive


class Listening:
    """Takes messages while it may go on; keeps who sent them, and what arrived."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[int, Arrival]] = []
        self.some = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.token = new_token()
        self.listener = Listener("127.0.0.1", self.token, self._receive)

    def _receive(self, connection: Connection, caller: Caller) -> None:
        while True:
            arrival = receive(connection)
            self.may_go_on.wait()
            if arrival is not None:
                self.arrivals.append((caller.node, arrival))
                self.some.release()

    def connect(self, node: int = 0) -> Connection:
        """As a peer that knows the token."""
        return connect(self.listener.address, Caller(node, 0), self.token)

    def close(self) -> None:
        self.may_go_on.set()
        self.listener.close()
