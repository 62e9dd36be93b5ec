"""What the parts of a running simulation share, and its nodes as their links see them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import simpy

from workbench.clusters import Cluster, Node
from workbench.runtime.faults import Row
from workbench.runtime.flows import Interface
from workbench.runtime.kernel import Kernel
from workbench.runtime.messages import Mailbox, Transfer
from workbench.runtime.sharing import Sharing
from workbench.runtime.threads import Threads


@dataclass(eq=False)
class State:
    """The state of a run, which its nodes and links read and change.

    `rows` are those of the trace, None if nothing is recorded; `delivered_s` and `ended_s` when the
    last message arrived and the last program or task ended; `pending` counts programs that run or
    will restart, and messages on their way; `failure` is the node whose program failed, and its
    exception; `fault_events` are events of faults, with the node that one may restart.
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

    def __post_init__(self) -> None:
        self.sharing = Sharing(self.env)


class Endpoint:
    """A node as its links see it.

    `uplink` and `downlink` are None where the interface is not limited, `watchers` lists that grow
    by each transfer from or to the node; `up` is False from a crash to the restart.
    """

    def __init__(self, state: State, index: int, node: Node) -> None:
        self.state, self.index, self.name = state, index, node.name
        self.uplink = None if node.uplink is None else Interface(node.uplink)
        self.downlink = None if node.downlink is None else Interface(node.downlink)
        self.mailbox = Mailbox(state.env)
        self.watchers: list[list[Transfer]] = []
        self.up = True


class Cores:
    """How many cores of a node are `free`, and the queue of those who wait for one.

    A node has new ones after a restart, so that what is left of before frees none of these.
    """

    __slots__ = ("free", "turns")

    def __init__(self, count: int) -> None:
        self.free = count
        self.turns: deque[simpy.Event] = deque()

    def release(self) -> None:
        """Pass a core to the first in the queue, or keep it free."""
        if self.turns:
            self.turns.popleft().succeed()
        else:
            self.free += 1
