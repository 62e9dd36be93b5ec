"""One notebook, executed by papermill in a hidden folder, whose results go to their place whole."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import platform
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from workbench.reproduction import provenance, results
from workbench.reproduction.folder import failed_copy, partial_folder, put_in_place
from workbench.reproduction.manifest import NAME as MANIFEST
from workbench.reproduction.manifest import Manifest, file_digest
from workbench.reproduction.notebook_files import Notebook
from workbench.reproduction.parameters import DRIVER_PARAMETER, Value
from workbench.utils import files, instruction_set

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpec

HEARTBEAT_S = 15.0
"""Seconds between lines of progress of a notebook."""
_IOPUB_S = 60.0  # how late a cell's last output may come on a machine that is busy; 4 by default
_TRACEBACK_LINES = 40
_LOG_LINES = 10


@dataclass(frozen=True)
class Task:
    """A notebook to run, with what its results are recorded with.

    Attributes
    ----------
    title
        What lines of progress call it.
    output
        The folder that gets ``NOTEBOOK/``.
    versions, revision, dirty
        From `workbench.reproduction.provenance`.
    environment
        Of the kernel; by default that of the process that runs the task.
    """

    title: str
    notebook: Notebook
    values: Mapping[str, Value]
    output: Path
    versions: Mapping[str, str]
    revision: str | None
    dirty: bool | None
    environment: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Outcome:
    """How the run of a notebook ended.

    Attributes
    ----------
    message
        The error of a notebook that failed.
    place
        The folder of its results, or the executed copy that holds the error; None where there is
        neither.
    """

    status: Literal["ran", "failed", "stopped"]
    wall_s: float = 0.0
    message: str = ""
    place: Path | None = None


def run(task: Task) -> Outcome:
    """Run a notebook in a hidden folder and move that to its place."""
    name, position = task.notebook.name, _Position(task.notebook.code_cells)
    began_s = time.monotonic()
    with _reported(task.title, position):
        try:
            with partial_folder(task.output, name) as partial:
                error = _execute(task, partial, position)
                wall_s = time.monotonic() - began_s
                if not error:
                    files.write_text(partial / MANIFEST, _manifest(task, partial, wall_s).to_json())
                    put_in_place(partial, task.output, name)
                    return Outcome("ran", wall_s, place=task.output / name)
                executed = (partial / f"{name}.ipynb").read_text(encoding="utf-8")
        except OSError as failure:
            wall_s, executed = time.monotonic() - began_s, task.notebook.text
            error = f"{position}: reading or writing failed: {failure.strerror or failure}"
    copy = failed_copy(task.output, name)
    with contextlib.suppress(OSError):  # where one file cannot be written, this cannot either
        copy.unlink(missing_ok=True)
        files.write_text(copy, executed)
    return Outcome("failed", wall_s, error, copy if copy.exists() else None)


def run_elsewhere(task: Task, folder: Path, in_clone: bool) -> tuple[Outcome, dict[str, bytes]]:
    """Run a notebook on another machine; return what it wrote, by path.

    A machine of other versions fails.

    Parameters
    ----------
    folder
        The notebook's own folder, below ``files.ROOT`` if it is one of the repository's.
    in_clone
        Whether it is, so that this machine's copy of the repository is used.
    """
    versions = provenance.all_versions()
    different = [name for name in task.versions if task.versions[name] != versions.get(name)]
    revision, _ = provenance.revision(files.ROOT)
    if in_clone and None not in (revision, task.revision) and revision != task.revision:
        different.append("commit")
    if different:
        names = ", ".join(different)
        message = f"{platform.node()} differs from the machine that asked: {names}"
        return Outcome("failed", message=message), {}
    with tempfile.TemporaryDirectory(prefix="workbench-sweep-") as temporary:
        output = Path(temporary)
        place = files.ROOT / folder if in_clone else folder
        path = (place if place.is_dir() else output) / task.notebook.path.name
        outcome = run(replace(task, notebook=replace(task.notebook, path=path), output=output))
        written = [path for path in output.rglob("*") if path.is_file()]
        return outcome, {path.relative_to(output).as_posix(): path.read_bytes() for path in written}


def bring_home(task: Task, outcome: Outcome, written: Mapping[str, bytes]) -> Outcome:
    """Put what a notebook wrote on another machine into its place on this one."""
    name, place = task.notebook.name, None
    with partial_folder(task.output, name) as partial:
        for path, content in written.items():
            files.write_bytes(partial / path, content)
        if outcome.status == "ran":
            put_in_place(partial / name, task.output, name)
            place = task.output / name
        elif (copy := failed_copy(partial, name)).exists():
            place = copy.replace(failed_copy(task.output, name))
    return replace(outcome, place=place)


@dataclass
class _Position:
    """How far the run of a notebook is: ``"cell 3 of 4 (Figure 5)"``."""

    cells: int
    cell: int = 0
    section: str = ""
    title: str = ""

    def begin_cell(self, cell: Mapping[str, Any]) -> None:
        """Note the cell that starts; its title is the heading above it, or its first line."""
        lines = [line.strip() for line in cell["source"].splitlines() if line.strip()]
        if cell["cell_type"] == "markdown":
            headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
            self.section = headings[0] if headings else self.section
        elif cell["cell_type"] == "code":
            self.cell += "injected-parameters" not in cell["metadata"].get("tags", ())
            self.title = self.section or (lines[0] if lines else "")

    def __str__(self) -> str:
        if not self.cell:
            return "the start of its kernel"
        return f"cell {self.cell} of {self.cells}" + (f" ({self.title})" if self.title else "")


@contextlib.contextmanager
def _reported(title: str, position: _Position) -> Iterator[None]:
    """Print a line when a run starts, and now and then how far it is."""
    over, began_s = threading.Event(), time.monotonic()

    def report() -> None:
        while not over.wait(HEARTBEAT_S):
            print(f"{title}: {position}, {duration(time.monotonic() - began_s)}", flush=True)

    print(f"{title}: started, {position.cells} cells", flush=True)
    threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def duration(seconds: float) -> str:
    """Return a readable duration: ``"2.5 s"``, ``"3 min 20 s"``."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _execute(task: Task, folder: Path, position: _Position) -> str:
    """Execute a notebook into `folder`; return its error, or an empty text."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill import exceptions as failures

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # errors are returned instead
    executed, log_path = folder / f"{task.notebook.name}.ipynb", folder / "kernel.log"
    executed.write_text(task.notebook.text, encoding="utf-8")
    driver = {DRIVER_PARAMETER: str(folder)} if task.notebook.keeps_results else {}
    environment = {
        **(os.environ if task.environment is None else task.environment),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTHONHASHSEED": "0",
    }
    # Threads that wait for each other by spinning take the very cores that they wait for.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    kernels: list[int] = []
    try:
        with log_path.open("wb") as log:
            papermill.execute_notebook(
                _literal(executed),
                _literal(executed),
                parameters={**task.values, **driver},
                kernel_name="python3",
                language="python",
                progress_bar=False,
                kernel_manager_class=_kernel_manager(log, environment, kernels.append),
                resources={"metadata": {"path": str(task.notebook.working_directory)}},
                iopub_timeout=_IOPUB_S,
                store_widget_state=False,  # else exporters take it for a widget that answers
                on_cell_start=lambda cell, cell_index: position.begin_cell(cell),
            )
    except failures.PapermillExecutionError as error:
        lines = failures.strip_color("\n".join(error.traceback)).splitlines()
        summary = f"{error.ename}: {error.evalue}" if error.evalue else str(error.ename)
        return "\n".join([f"{position}: {summary}", *lines[-_TRACEBACK_LINES:]])
    except OSError:
        raise
    except Exception as error:  # whatever papermill and Jupyter raise ends this notebook alone
        why = str(error)
        if isinstance(error, DeadKernelError):
            why = f"the kernel died: out of memory, or a crash in compiled code. {why}"
        log_lines = log_path.read_text(errors="replace").strip().splitlines()
        return "\n".join([f"{position}: {why}", *log_lines[-_LOG_LINES:]])
    finally:
        for kernel in kernels:
            # A kernel leads a process group of its own: what it has started ends with it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(kernel, signal.SIGKILL)
        log_path.unlink(missing_ok=True)
        _forget_folder(executed, task.notebook)
    return ""


def _kernel_manager(
    log: IO[bytes], environment: Mapping[str, str], started: Callable[[int], None]
) -> type[Any]:
    """Return a kernel manager that starts this very interpreter, whatever `python3` is elsewhere.

    A kernel ends within a second of the process that started it. `log` gets what it prints outside
    its cells; `started` is called with its process id.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    launch = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher"]
    specification = KernelSpec(
        argv=[*launch, "-f", "{connection_file}", "--IPKernelApp.log_level=ERROR"],
        display_name="Python 3 (ipykernel)",
        language="python",
    )

    class Manager(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return specification

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            await super().start_kernel(env=dict(environment), stdout=log, stderr=log, **options)
            started((await self.provisioner.get_provisioner_info())["pid"])  # type: ignore[union-attr]

    return Manager


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


def _manifest(task: Task, folder: Path, wall_s: float) -> Manifest:
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    return Manifest(
        of=task.notebook.name,
        system=results.system_of(task.notebook.name),
        arguments=task.values,
        made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=round(wall_s, 3),
        revision=task.revision,
        dirty=task.dirty,
        machine=provenance.machine(),
        versions=task.versions,
        instruction_set=instruction_set.record(),
        outputs={path.relative_to(folder).as_posix(): file_digest(path) or "" for path in written},
    )
