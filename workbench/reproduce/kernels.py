"""The processes that notebooks run in, and their certain end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpec


@dataclass(frozen=True)
class Kernels:
    """The running kernels, so that an interrupt can end them all."""

    stopping: threading.Event = field(default_factory=threading.Event)
    _pids: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, pid: int) -> None:
        """Register a started kernel; it ends at once if all are to end."""
        with self._lock:
            self._pids.add(pid)
            if self.stopping.is_set():
                _end(pid)

    def end(self, pid: int) -> None:
        """End what a kernel may have left running, and forget it."""
        with self._lock:
            self._pids.discard(pid)
            _end(pid)

    def end_all(self) -> None:
        """End all kernels, also those that are about to start."""
        with self._lock:
            self.stopping.set()
            for pid in self._pids:
                _end(pid)


def _end(pid: int) -> None:
    # A kernel leads a process group of its own: what it has started ends with it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kernel_manager(log: IO[bytes], started: Callable[[int], None]) -> type[Any]:
    """Return a kernel manager that starts this very interpreter, whatever `python3` is elsewhere.

    A kernel watches the process that started it (``JPY_PARENT_PID``) and ends within a second of
    its end, so even `kill -9` of the driver leaves none behind. `log` gets the kernel's own output,
    outside its cells; `started` is called with its process id.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    launch = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher"]
    specification = KernelSpec(
        argv=[*launch, "-f", "{connection_file}", "--IPKernelApp.log_level=ERROR"],
        display_name="Python 3 (ipykernel)",
        language="python",
        env={
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "PYTHONHASHSEED": "0",
            # Threads that wait for each other by spinning take the very cores that they wait for,
            # as soon as anything else runs: a network then trains many times slower.
            "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),
        },
    )

    class Manager(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return specification

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            await super().start_kernel(stdout=log, stderr=log, **options)
            started((await self.provisioner.get_provisioner_info())["pid"])  # type: ignore[union-attr]

    return Manager
