"""Runs a notebook by papermill: the processes, their certain end, failures in its own terms."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from workbench.parameters import DRIVER_PARAMETER, Value
from workbench.reproduce.notebooks import Notebook
from workbench.reproduce.progress import Progress
from workbench.utils import files

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpec

KERNEL = "python3"
_IOPUB_S = 60.0  # how late a cell's last output may come on a machine that is busy; 4 by default
_TRACEBACK_LINES = 40
_LOG_LINES = 10


@dataclass(frozen=True)
class Kernels:
    """The running kernels, so that an interrupt can end them all, and what they have in common."""

    environment: Mapping[str, str]
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


def kernel_manager(
    log: IO[bytes], started: Callable[[int], None], environment: Mapping[str, str]
) -> type[Any]:
    """Return a kernel manager that starts this very interpreter, whatever `python3` is elsewhere.

    A kernel watches the process that started it (``JPY_PARENT_PID``) and ends within a second of
    its end, so even `kill -9` of the driver leaves none behind. `log` gets the kernel's own output,
    outside its cells; `started` is called with its process id; `environment` is added to its own.
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
            **environment,
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


def execute(
    notebook: Notebook,
    values: Mapping[str, Value],
    folder: Path,
    progress: Progress,
    kernels: Kernels,
) -> str:
    """Execute a notebook into `folder`; return its error, empty if it ended well.

    `progress` is updated at each cell, `kernels` while the notebook's kernel runs.
    """
    executed = folder / f"{notebook.name}.ipynb"
    executed.write_text(notebook.text, encoding="utf-8")
    driven = {DRIVER_PARAMETER: str(folder)} if notebook.keeps else {}
    try:
        return _run(executed, notebook.runs_in, {**values, **driven}, progress, kernels)
    finally:
        _forget_folder(executed, notebook)


def _run(
    executed: Path,
    current: Path,
    values: Mapping[str, Value],
    progress: Progress,
    kernels: Kernels,
) -> str:
    """Run `executed` in place, with `current` as its current directory; return its error."""
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill import exceptions as failures

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # errors are returned instead
    log_path = executed.with_name("kernel.log")
    started: list[int] = []

    def kernel_started(pid: int) -> None:
        started.append(pid)
        kernels.add(pid)

    try:
        with log_path.open("wb") as log:
            papermill.execute_notebook(
                _literal(executed),
                _literal(executed),
                parameters=values,
                kernel_name=KERNEL,
                language="python",
                progress_bar=False,
                kernel_manager_class=kernel_manager(log, kernel_started, kernels.environment),
                resources={"metadata": {"path": str(current)}},
                iopub_timeout=_IOPUB_S,
                store_widget_state=False,  # else exporters take it for a widget that answers
                on_cell_start=lambda cell, cell_index: progress.begin_cell(cell),
            )
    except failures.PapermillExecutionError as error:
        lines = failures.strip_color("\n".join(error.traceback)).splitlines()
        summary = f"{error.ename}: {error.evalue}" if error.evalue else str(error.ename)
        return "\n".join([f"{progress.where}: {summary}", *lines[-_TRACEBACK_LINES:]])
    except (failures.PapermillException, CellTimeoutError, RuntimeError) as error:
        why = str(error)
        if isinstance(error, DeadKernelError):
            why = f"the kernel died: out of memory, or a crash in compiled code. {why}"
        log_lines = log_path.read_text(errors="replace").strip().splitlines()
        return "\n".join([f"{progress.where}: {why}", *log_lines[-_LOG_LINES:]])
    finally:
        for pid in started:
            kernels.end(pid)
        log_path.unlink(missing_ok=True)
    return ""


def _forget_folder(executed: Path, notebook: Notebook) -> None:
    """Remove the hidden folder's path from an executed copy, so that it can be run by hand."""
    try:
        content = json.loads(executed.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # interrupted while it was being written
    for cell in content["cells"]:
        if "injected-parameters" in cell["metadata"].get("tags", ()):
            source = "".join(cell["source"])
            kept = re.sub(rf"(?m)^{DRIVER_PARAMETER} = .*$", f'{DRIVER_PARAMETER} = ""', source)
            cell["source"] = kept.splitlines(keepends=True)
    about = content["metadata"].get("papermill", {})
    about.update(input_path=notebook.path.name, output_path=notebook.path.name)
    about.get("parameters", {}).pop(DRIVER_PARAMETER, None)
    files.write_text(executed, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _literal(path: Path) -> str:
    """Return a path that papermill's `str.format` leaves as it is."""
    return str(path).replace("{", "{{").replace("}", "}}")
