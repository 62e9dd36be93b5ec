"""The actor of Ray's in which a node's process runs."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from dataclasses import replace
from importlib import import_module
from typing import Any

from workbench.runtime.measured.process import NodeProcess
from workbench.runtime.measured.records import Place, Ready

SWITCH_S = 0.0005
"""How long a thread may keep the others of its process waiting for the interpreter."""
_DRIVER_LOOK_S = 1.0


class Worker:
    """The actor of Ray's in which a node's process runs, one run after the other.

    `driver` is the driver's process, if it is on the same machine: with it the actor ends.
    """

    def __init__(self, driver: int | None) -> None:
        sys.setswitchinterval(SWITCH_S)
        if driver is not None:
            threading.Thread(target=_end_with, args=(driver,), daemon=True).start()

    def begin(self, place: Place, program: bytes, modules: tuple[str, ...]) -> Ready:
        """Take part in a run; import before it what takes long."""
        for name in modules:
            import_module(name)
        if place.host is None:
            import ray

            place = replace(place, host=ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        self._process: NodeProcess | None = NodeProcess(place)
        if "torch" in modules:
            self._process.warm_up()
        return self._process.prepare(program)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method of the node's process."""
        return getattr(self._process, name)(*arguments)

    def reading_s(self) -> float:
        """Of this machine's clock."""
        return time.monotonic()

    def leave(self) -> None:
        """Forget the run."""
        self._process = None
        gc.unfreeze()
        gc.collect()


def _end_with(driver: int) -> None:
    """End this process once the driver's is gone."""
    while True:
        time.sleep(_DRIVER_LOOK_S)
        try:
            os.kill(driver, 0)
        except ProcessLookupError:
            os._exit(1)
