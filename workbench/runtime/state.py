"""What the parts of a running simulation share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import simpy

from workbench.clusters import Cluster
from workbench.runtime.kernel import Kernel
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
    rows: list[tuple[str, str, str, float, float, int]] | None
    env: Kernel = field(default_factory=Kernel)
    results: dict[int, Any] = field(default_factory=dict)
    delivered_s: float = 0.0
    ended_s: float = 0.0
    pending: int = 0
    failure: tuple[int, BaseException] | None = None
    fault_events: dict[simpy.Event, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sharing = Sharing(self.env)
