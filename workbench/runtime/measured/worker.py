"""The actor of Ray's in which a node's process runs."""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import replace
from typing import Any

from workbench.runtime.measured.arbiter import Arbiter
from workbench.runtime.measured.process import NodeProcess
from workbench.runtime.measured.records import Place, Ready

SWITCH_S = 0.0005
"""How long a thread may keep the others of its process waiting for the interpreter."""


class Worker:
    """The actor of Ray's in which a node's process runs, one run after the other."""

    def __init__(self) -> None:
        sys.setswitchinterval(SWITCH_S)
        self._process: NodeProcess | Arbiter | None = None

    def begin(self, place: Place, program: bytes) -> Ready:
        """Take part in a run."""
        process = self._process = NodeProcess(_placed(place))
        return process.prepare(program)

    def arbitrate(self, place: Place) -> tuple[str, int]:
        """Be the arbiter of a run; where it listens."""
        arbiter = self._process = Arbiter(_placed(place))
        return arbiter.listener.address

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the node's process."""
        return getattr(self._process, name)(*arguments, **options)

    def reading_s(self) -> float:
        """Of this machine's clock."""
        return time.monotonic()

    def leave(self) -> None:
        """Forget the run."""
        self._process = None
        gc.unfreeze()
        gc.collect()


def _placed(place: Place) -> Place:
    """With the address of this machine, in a cluster."""
    if place.host is not None:
        return place
    import ray

    return replace(place, host=ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
