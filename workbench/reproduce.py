"""Runs the notebooks from start to end and keeps what they make; papermill underneath.

What a notebook makes is written to a hidden folder beside its final place and takes that place in
one step when all of it is there, so a run may be stopped at any moment and started again: finished
notebooks stand, the others run. A notebook whose inputs have not changed does not run again.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import fcntl
import hashlib
import json
import logging
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import workbench
from workbench import atomic, parameters, results
from workbench.names import check_name
from workbench.parameters import DRIVER_PARAMETER, Parameter, Value

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Status = Literal["waiting", "running", "ran", "unchanged", "failed", "stopped"]

KERNEL = "python3"
VERSIONS_THAT_MATTER = ("altair", "numpy", "polars", "scipy", "torch", "vl-convert-python")
VERSIONS_NOTED = ("anywidget", "ipykernel", "ipywidgets", "jupyterlab", "papermill")
_KERNEL_LOG = "kernel.log"
_TICK_S = 0.25


@dataclass(frozen=True)
class Notebook:
    """A notebook as it stands on disk, with the parameters it declares.

    Attributes
    ----------
    path
        The file; its name without suffix is the notebook's name.
    cells
        The source of each cell, with its type and tags: all that a run depends on.
    parameters
        By name; without the driver's own.
    defaults
        The value of each parameter in the notebook's cell.
    keeps
        Whether it declares ``output``, and so can keep results.
    """

    path: Path
    cells: tuple[tuple[str, str, tuple[str, ...]], ...]
    parameters: Mapping[str, Parameter]
    defaults: Mapping[str, Value]
    keeps: bool

    @property
    def name(self) -> str:
        """The file's name without its suffix: ``"01_dynacomm"``."""
        return self.path.stem

    @property
    def code_cells(self) -> int:
        """How many cells there are to run."""
        return sum(kind == "code" for kind, _, _ in self.cells)


@dataclass(frozen=True)
class Outcome:
    """How it went with one notebook.

    Attributes
    ----------
    notebook
        Its name.
    status
        ``"ran"``, ``"unchanged"``, ``"failed"``, or ``"stopped"`` (interrupted, or never begun).
    wall_s
        Seconds that this run took.
    place
        The folder of its results, or the executed copy that holds the error.
    message
        The notebook's own error, or empty.
    """

    notebook: str
    status: Status
    wall_s: float
    place: Path
    message: str = ""


@dataclass(frozen=True)
class Report:
    """How it went with all notebooks, in their order."""

    outcomes: tuple[Outcome, ...]
    interrupted: bool
    figures: tuple[Path, ...]

    @property
    def exit_status(self) -> int:
        """0 if every notebook stands, 130 after an interrupt, 1 if one failed."""
        if self.interrupted:
            return 130
        return int(any(outcome.status == "failed" for outcome in self.outcomes))


def reproduce(
    names: Sequence[str] = (),
    *,
    scale: str | None = None,
    given: Mapping[str, str] | None = None,
    notebooks: Path | None = None,
    output: Path | None = None,
    figures: Path | None = None,
    jobs: int = 1,
    force: bool = False,
    console: Console | None = None,
    heartbeat_s: float = 15.0,
) -> Report:
    """Run notebooks whose inputs have changed, and keep what they make.

    Everything that the user gave is checked before the first notebook starts. A notebook that fails
    does not keep the others from running. An interrupt (Ctrl-C, SIGTERM) ends all kernels and
    returns a report of what stands.

    Parameters
    ----------
    names
        ``01_dynacomm``, ``dynacomm`` or ``01``; every notebook by default.
    scale
        ``"smoke"``, ``"default"`` or ``"paper"``; ``"default"`` if neither this nor `given` says.
    given
        Other parameters as written by the user; each goes to those notebooks that have it.
    notebooks
        Where the notebooks are; see `notebooks_folder`.
    output
        Where ``NOTEBOOK/`` folders are put; ``data/results`` beside the notebooks by default.
    figures
        A folder that also gets all SVG figures, as ``SYSTEM_FIGURE.svg``.
    jobs
        How many notebooks run at once.
    force
        Run also what has not changed.
    console
        Where progress is shown; standard output by default.
    heartbeat_s
        At most so many seconds pass between two lines where no live display is possible.

    Raises
    ------
    ValueError
        An unknown notebook or parameter, a value that is not allowed, an output that cannot be
        written or that another run is writing.
    """
    from rich.console import Console

    console = console or Console()
    if jobs < 1:
        raise ValueError(f"--jobs {jobs}: must be at least 1")
    folder = notebooks_folder(notebooks)
    chosen = find(folder, names)
    values = resolve(chosen, scale, given or {})
    root = folder.parent
    output = (output or results.default_folder(root)).resolve()

    with _sole_writer(output), _sigterm_interrupts():
        _clean(output)
        run = _Run(chosen, values, root, output, force)
        display = _display(console, run.progress, heartbeat_s)
        run.carry_out(jobs, display)
    copied: list[Path] = []
    outcomes = tuple(run.outcome(notebook) for notebook in chosen)
    if figures is not None:
        for outcome in outcomes:
            if outcome.status in ("ran", "unchanged"):
                copied += results.copy_figures(output, outcome.notebook, figures)
    report = Report(outcomes, run.interrupted, tuple(copied))
    _print_report(console, report, output, figures)
    return report


# --- What was asked for --------------------------------------------------------------------------


def notebooks_folder(given: Path | None = None) -> Path:
    """Return where the notebooks are: as given, else the clone's, else the current directory's.

    Raises
    ------
    ValueError
        There are no notebooks in any of these.
    """
    places = [given] if given else [results.repository() / "notebooks", Path.cwd() / "notebooks"]
    for place in places:
        if any(place.glob("*.ipynb")):
            return place.resolve()
    where = " or ".join(str(place) for place in dict.fromkeys(places))
    raise ValueError(f"no notebooks in {where}; name their folder with --notebooks DIR")


def find(folder: Path, names: Sequence[str] = ()) -> list[Notebook]:
    """Return the notebooks of these names, or all, in the order of their names.

    Parameters
    ----------
    folder
        Holds ``*.ipynb``.
    names
        Whole names, or their number or the rest alone; a ``.ipynb`` suffix and folders in front
        are overlooked.

    Raises
    ------
    ValueError
        No notebook of such a name (the message names the nearest), or an unreadable one.
    """
    paths = {path.stem: path for path in sorted(folder.glob("*.ipynb"))}
    short: dict[str, list[str]] = {}
    for stem in paths:
        number, _, rest = stem.partition("_")
        for alias in (number, rest) if number.isdigit() and rest else ():
            short.setdefault(alias, []).append(stem)
    chosen = set()
    for name in names:
        bare = Path(name).name.removesuffix(".ipynb")
        if bare in short and bare not in paths:
            if len(short[bare]) > 1:
                raise ValueError(f"notebook {name!r} may be any of {', '.join(short[bare])}")
            bare = short[bare][0]
        if bare not in paths:
            check_name("notebook", bare, [*paths, *(alias for alias in short if alias.isalpha())])
        chosen.add(bare)
    return [read_notebook(path) for stem, path in paths.items() if not names or stem in chosen]


def read_notebook(path: Path) -> Notebook:
    """Return a notebook with the parameters that its cell tagged ``parameters`` declares.

    Raises
    ------
    ValueError
        The file is no notebook, or a parameter's default is not a plain value.
    """
    try:
        cells = tuple(
            (
                str(cell["cell_type"]),
                "".join(cell["source"]),
                tuple(cell.get("metadata", {}).get("tags", ())),
            )
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a Jupyter notebook (nbformat 4): {error!r}") from None
    source = next((source for _, source, tags in cells if "parameters" in tags), "")
    declared = _declared(source, path)
    keeps = declared.pop(DRIVER_PARAMETER, None) is not None
    own = {name: parameters.own(name, default) for name, default in declared.items()}
    defaults = {name: own[name].default(value) for name, value in declared.items()}
    return Notebook(path, cells, own, defaults, keeps)


def resolve(
    notebooks: Sequence[Notebook], scale: str | None, given: Mapping[str, str]
) -> dict[str, dict[str, Value]]:
    """Return the value of every parameter of every notebook, or refuse before anything runs.

    Raises
    ------
    ValueError
        A parameter that no notebook among these has, or a value that is not allowed.
    """
    given = dict(given)
    if scale is not None and "scale" in given:
        raise ValueError("the scale is given twice: by --scale and by -p scale=…")
    known = {name: one for notebook in notebooks for name, one in notebook.parameters.items()}
    for name, text in given.items():
        if name in parameters.PARAMETERS and name not in known:
            chosen = ", ".join(notebook.name for notebook in notebooks)
            raise ValueError(
                f"parameter {name!r} belongs to none of the chosen notebooks ({chosen}). "
                f"Their parameters:\n{parameters.listing(known)}"
            )
        parameters.parse(name, text, known)
    if "scale" not in given:
        given["scale"] = str(parameters.parse("scale", scale or "default"))
    return {
        notebook.name: {
            **notebook.defaults,
            **{
                name: one.parse(given[name])
                for name, one in notebook.parameters.items()
                if name in given
            },
        }
        for notebook in notebooks
    }


def _declared(source: str, path: Path) -> dict[str, object]:
    declared: dict[str, object] = {}
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise ValueError(f"{path}: the parameters cell is not Python: {error}") from None
    for statement in statements:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        try:
            declared[name] = ast.literal_eval(value)
        except ValueError:
            raise ValueError(
                f"{path}: the default of parameter {name!r} must be a plain value, "
                f"not {ast.unparse(value)}"
            ) from None
    return declared


# --- What a run depends on -----------------------------------------------------------------------


def fingerprint(
    notebook: Notebook, values: Mapping[str, Value], root: Path, versions: Mapping[str, str]
) -> dict[str, str]:
    """Return a SHA-256 of each group of inputs that a notebook's results depend on.

    The groups are the notebook's cells, its parameters (with the content of a data file that one
    names), the package's source, the tables in ``data/``, the lock files and the versions of what
    is installed.
    """
    package = Path(workbench.__file__).parent
    files = [Path(str(value)) for value in values.values() if str(value).endswith(".npz")]
    data = root / "data"
    return {
        "notebook": _digest(notebook.cells),
        "parameters": _digest([dict(values), _digests(files, root)]),
        "package": _digest(_digests(package.rglob("*.py"), package)),
        "data": _digest(
            _digests(
                [
                    *data.glob("*.csv"),
                    *(data / "testbeds").rglob("*"),
                    *(data / "calibration").rglob("*"),
                ],
                root,
            )
        ),
        "lock": _digest(
            _digests(
                [
                    path
                    for pattern in ("*.lock", "pylock*.toml", "requirements*.txt")
                    for path in root.glob(pattern)
                ],
                root,
            )
        ),
        "versions": _digest(
            {name: versions.get(name) for name in ("python", *VERSIONS_THAT_MATTER)}
        ),
    }


def _digests(files: Iterable[Path], root: Path) -> dict[str, str | None]:
    return {
        os.path.relpath(file, root): results.file_digest(file)
        for file in sorted(files)
        if file.is_file()
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    from importlib import metadata

    found = {"python": platform.python_version(), "workbench": workbench.__version__}
    for name in sorted((*VERSIONS_THAT_MATTER, *VERSIONS_NOTED)):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _revision(root: Path) -> tuple[str | None, bool | None]:
    """Return git's revision of `root`, and whether what a run reads differs from it."""
    try:
        revision = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", ".", ":!figures")
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return revision, bool(changed)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


# --- The run -------------------------------------------------------------------------------------


@dataclass
class _Progress:
    """What one notebook is doing now; its own thread writes it, the display reads it."""

    notebook: str
    cells: int
    status: Status = "waiting"
    reason: str = ""
    cell: int = 0
    title: str = ""
    section: str = ""
    started_s: float = 0.0
    wall_s: float = 0.0
    message: str = ""

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s if self.status == "running" else self.wall_s

    def begin_cell(self, cell: Mapping[str, Any]) -> None:
        """Note the cell that starts; its title is the heading above it, or its first line."""
        lines = [line.strip() for line in cell["source"].splitlines() if line.strip()]
        if cell["cell_type"] == "markdown":
            headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
            self.section = headings[0] if headings else self.section
        elif cell["cell_type"] == "code":
            tags = cell["metadata"].get("tags", ())
            self.cell += "injected-parameters" not in tags
            self.title = self.section or (lines[0] if lines else "")


@dataclass
class _Kernels:
    """The kernels now running, so that an interrupt can end them all."""

    pids: set[int] = field(default_factory=set)
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, pid: int) -> None:
        with self.lock:
            self.pids.add(pid)
            if self.stopping.is_set():
                self._end(pid)

    def discard(self, pid: int) -> None:
        with self.lock:
            self.pids.discard(pid)

    def end_all(self) -> None:
        with self.lock:
            self.stopping.set()
            for pid in self.pids:
                self._end(pid)

    def _end(self, pid: int) -> None:
        # A kernel leads a process group of its own: what it has started ends with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


class _Run:
    """One call of `reproduce`, after everything has been checked."""

    def __init__(
        self,
        notebooks: Sequence[Notebook],
        values: Mapping[str, Mapping[str, Value]],
        root: Path,
        output: Path,
        force: bool,
    ) -> None:
        self.notebooks = notebooks
        self.values = values
        self.output = output
        self.versions = _versions()
        self.revision, self.dirty = _revision(root)
        self.interrupted = False
        self.kernels = _Kernels()
        self.inputs = {
            one.name: fingerprint(one, values[one.name], root, self.versions) for one in notebooks
        }
        self.progress = {one.name: _Progress(one.name, one.code_cells) for one in notebooks}
        for notebook in notebooks:
            progress = self.progress[notebook.name]
            progress.reason = "forced" if force else self._why(notebook)
            if not progress.reason:
                progress.status = "unchanged"

    def carry_out(self, jobs: int, display: _Display) -> None:
        """Run what has to run, `jobs` at once, until all is done or an interrupt comes."""
        todo = [one for one in self.notebooks if self.progress[one.name].status == "waiting"]
        with display, ThreadPoolExecutor(jobs) as pool:
            try:
                pending: set[Future[None]] = {pool.submit(self._one, one) for one in todo}
                while pending:
                    done, pending = wait(pending, timeout=_TICK_S, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    display.refresh()
            except BaseException as error:
                with _deaf_to_interrupts():
                    self.kernels.end_all()
                    pool.shutdown(cancel_futures=True)
                    _clean(self.output)
                if not isinstance(error, KeyboardInterrupt):
                    raise
                self.interrupted = True
            display.refresh()

    def outcome(self, notebook: Notebook) -> Outcome:
        progress = self.progress[notebook.name]
        status = progress.status if progress.status != "waiting" else "stopped"
        place = self._failed(notebook) if status == "failed" else self.output / notebook.name
        return Outcome(notebook.name, status, progress.wall_s, place, progress.message)

    def _why(self, notebook: Notebook) -> str:
        """Return why a notebook has to run; empty if its stored results stand."""
        folder = self.output / notebook.name
        kept = results.read_manifest(folder)
        if kept is None:
            return "no results yet"
        inputs = self.inputs[notebook.name]
        changed = [group for group in inputs if kept.inputs.get(group) != inputs[group]]
        if changed:
            return f"changed: {', '.join(changed)}"
        altered = kept.altered(folder)
        return f"altered or missing: {', '.join(altered)}" if altered else ""

    def _one(self, notebook: Notebook) -> None:
        """Run one notebook in a hidden folder and put that in its place; in a thread."""
        progress = self.progress[notebook.name]
        if self.kernels.stopping.is_set():
            return
        partial = Path(tempfile.mkdtemp(prefix=f".{notebook.name}.partial-", dir=self.output))
        partial.chmod(0o755)
        progress.started_s = time.monotonic()
        progress.status = "running"
        try:
            error = self._execute(notebook, partial, progress)
            progress.wall_s = time.monotonic() - progress.started_s
            _forget_output(partial / f"{notebook.name}.ipynb", notebook)
            if self.kernels.stopping.is_set():
                progress.status = "stopped"
            elif error:
                executed = (partial / f"{notebook.name}.ipynb").read_bytes()
                atomic.write_bytes(self._failed(notebook), executed)
                progress.message = error
                progress.status = "failed"
            else:
                self._put_in_place(notebook, partial, progress.wall_s)
                progress.status = "ran"
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _execute(self, notebook: Notebook, partial: Path, progress: _Progress) -> str:
        """Execute a notebook into `partial`; return its error, empty if it ended well."""
        import papermill
        from nbclient.exceptions import CellTimeoutError, DeadKernelError
        from papermill import exceptions as failures

        logging.getLogger("papermill").setLevel(logging.CRITICAL)  # errors are returned instead
        values = dict(self.values[notebook.name])
        if notebook.keeps:
            values[DRIVER_PARAMETER] = str(partial)
        log_path = partial / _KERNEL_LOG
        started: list[int] = []

        def kernel_started(pid: int) -> None:
            started.append(pid)
            self.kernels.add(pid)

        try:
            with log_path.open("wb") as log:
                papermill.execute_notebook(
                    _literal(notebook.path),
                    _literal(partial / f"{notebook.name}.ipynb"),
                    parameters=values,
                    kernel_name=KERNEL,
                    language="python",
                    progress_bar=False,
                    kernel_manager_class=_kernel_manager(log, kernel_started),
                    resources={"metadata": {"path": str(notebook.path.parent)}},
                    on_cell_start=lambda cell, cell_index: progress.begin_cell(cell),
                )
        except failures.PapermillExecutionError as error:
            lines = failures.strip_color("\n".join(error.traceback)).splitlines()
            where = f"cell {progress.cell} of {progress.cells}"
            where += f" ({progress.title})" if progress.title else ""
            summary = f"{error.ename}: {error.evalue}" if error.evalue else str(error.ename)
            return "\n".join([f"{where}: {summary}", *lines[-40:]])
        except (failures.PapermillException, CellTimeoutError, RuntimeError) as error:
            log_text = log_path.read_text(errors="replace").strip()
            where = f"cell {progress.cell} of {progress.cells}: " if progress.cell else ""
            if isinstance(error, DeadKernelError):
                where += "the kernel died: out of memory, or a crash in compiled code. "
            return "\n".join([f"{where}{error}", *log_text.splitlines()[-10:]])
        finally:
            for pid in started:
                self.kernels.discard(pid)
        return ""

    def _put_in_place(self, notebook: Notebook, partial: Path, wall_s: float) -> None:
        (partial / _KERNEL_LOG).unlink()
        files = sorted(path for path in partial.rglob("*") if path.is_file())
        manifest = results.Manifest(
            notebook=notebook.name,
            system=results.system_of(notebook.name),
            parameters=self.values[notebook.name],
            inputs=self.inputs[notebook.name],
            made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            wall_s=round(wall_s, 3),
            revision=self.revision,
            dirty=self.dirty,
            platform=platform.platform(),
            versions=self.versions,
            outputs={
                path.relative_to(partial).as_posix(): results.file_digest(path) or ""
                for path in files
            },
        )
        atomic.write_text(partial / results.MANIFEST, manifest.to_json())
        final = self.output / notebook.name
        old = self.output / f".{notebook.name}.old"
        if final.exists():
            final.rename(old)  # `_clean` brings it back if we die between the two
        partial.rename(final)
        shutil.rmtree(old, ignore_errors=True)
        self._failed(notebook).unlink(missing_ok=True)

    def _failed(self, notebook: Notebook) -> Path:
        return self.output / f"{notebook.name}.failed.ipynb"


def _kernel_manager(log: IO[bytes], started: Callable[[int], None]) -> type[Any]:
    """Return a kernel manager that starts this very interpreter, whatever `python3` is elsewhere.

    A kernel watches the process that started it (``JPY_PARENT_PID``) and ends within a second of
    its end, so even `kill -9` of the driver leaves none behind.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    specification = KernelSpec(
        argv=[
            sys.executable,
            "-Xfrozen_modules=off",
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
            "--IPKernelApp.log_level=ERROR",
        ],
        display_name="Python 3 (ipykernel)",
        language="python",
        env={"PYDEVD_DISABLE_FILE_VALIDATION": "1", "PYTHONHASHSEED": "0"},
    )

    class Manager(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return specification

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            await super().start_kernel(stdout=log, stderr=log, **options)
            started((await self.provisioner.get_provisioner_info())["pid"])  # type: ignore[union-attr]

    return Manager


def _forget_output(executed: Path, notebook: Notebook) -> None:
    """Take the hidden folder's path out of an executed copy, so that it can be run by hand."""
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
    atomic.write_text(executed, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _literal(path: Path) -> str:
    """Return a path that papermill's `str.format` leaves as it is."""
    return str(path).replace("{", "{{").replace("}", "}}")


# --- One writer, no leftovers, interrupts --------------------------------------------------------


@contextlib.contextmanager
def _sole_writer(output: Path) -> Iterator[None]:
    """Hold the output folder's lock; the system frees it when this process ends, however."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock = (output / ".lock").open("a+")
    except OSError as error:
        raise ValueError(f"cannot write to {output}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ValueError(
                f"another run (process {lock.read().strip() or 'unknown'}) is writing to {output}; "
                "wait for it to end, or choose another folder with --output DIR"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _clean(output: Path) -> None:
    """Remove what dead runs have left, bringing back a result that was about to be replaced."""
    for old in output.glob(".*.old"):
        final = output / old.name.removeprefix(".").removesuffix(".old")
        if final.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(final)
    for partial in output.glob(".*.partial-*"):
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that kernels end and what is kept is told."""
    with _signal_handler(signal.SIGTERM, signal.default_int_handler):
        yield


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let a second Ctrl-C not break the tidying up after the first."""
    with _signal_handler(signal.SIGINT, signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _signal_handler(number: signal.Signals, handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, and only it is interrupted
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


# --- What the user sees --------------------------------------------------------------------------


class _Display(contextlib.AbstractContextManager["_Display"]):
    """Lines, one per start and end and a sign of life in between: for logs."""

    def __init__(
        self, console: Console, progress: Mapping[str, _Progress], heartbeat_s: float
    ) -> None:
        self.console = console
        self.progress = progress
        self.heartbeat_s = heartbeat_s
        self.told: dict[str, Status] = {}
        self.told_s = time.monotonic()

    def __enter__(self) -> _Display:
        self.refresh()
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Tell what has changed since the last time."""
        for name, one in self.progress.items():
            status = one.status
            if status == self.told.get(name, "waiting"):
                continue
            if name not in self.told and status not in ("unchanged", "stopped"):
                self._line(f"{name}: started, {one.cells} cells ({one.reason})")
            if status == "unchanged":
                self._line(f"{name}: unchanged, not run again (--force runs it)")
            elif status != "running":
                self._line(f"{name}: {status} after {_seconds(one.elapsed_s)}")
            self.told[name] = status
        if time.monotonic() - self.told_s >= self.heartbeat_s:
            for name, one in self.progress.items():
                if one.status == "running":
                    self._line(
                        f"{name}: cell {one.cell} of {one.cells}, {one.title}, "
                        f"{_seconds(one.elapsed_s)}"
                    )

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
        self.told_s = time.monotonic()


class _LiveDisplay(_Display):
    """A table that is redrawn in place: for terminals."""

    def __enter__(self) -> _Display:
        from rich.live import Live

        self.live = Live(
            console=self.console,
            get_renderable=self._table,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def refresh(self) -> None:
        """Leave it to the thread that redraws the table."""

    def _table(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for _ in range(5):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for name, one in self.progress.items():
            status = one.status
            cells = one.cell if status in ("running", "failed", "stopped") else one.cells
            cells = 0 if status == "waiting" else cells
            done = max(cells - 1, 0) if status == "running" else cells
            table.add_row(
                Text(status, style=_STYLES[status]),
                Text(name),
                ProgressBar(total=max(one.cells, 1), completed=done, width=16),
                Text(f"{cells}/{one.cells}"),
                Text("" if status in ("waiting", "unchanged") else _seconds(one.elapsed_s)),
                Text(one.title if status == "running" else "", style="dim"),
            )
        return table


_STYLES: dict[Status, str] = {
    "waiting": "dim",
    "running": "cyan",
    "ran": "green",
    "unchanged": "green",
    "failed": "bold red",
    "stopped": "yellow",
}


def _display(console: Console, progress: Mapping[str, _Progress], heartbeat_s: float) -> _Display:
    kind = _LiveDisplay if console.is_terminal else _Display
    return kind(console, progress, heartbeat_s)


def _print_report(console: Console, report: Report, output: Path, figures: Path | None) -> None:
    from rich.text import Text

    def line(*parts: str | tuple[str, str]) -> None:
        console.print(Text.assemble(*parts), soft_wrap=True)

    width = max(len(outcome.notebook) for outcome in report.outcomes)
    line()
    for outcome in report.outcomes:
        line(
            f"{outcome.notebook:<{width}}  ",
            (f"{outcome.status:<9}", _STYLES[outcome.status]),
            f"  {_seconds(outcome.wall_s):>8}" if outcome.wall_s else " " * 10,
            "" if outcome.status == "stopped" else f"  {_near(outcome.place)}",
        )
    for outcome in report.outcomes:
        if outcome.status == "failed":
            line()
            line((f"{outcome.notebook} failed in {outcome.message}", ""))
            kept = results.read_manifest(output / outcome.notebook)
            if kept is not None:
                line(f"Its results from {kept.made_at} are still in {_near(output)}.")
    if report.figures and figures is not None:
        count = len(report.figures)
        line(f"{count} figure{'' if count == 1 else 's'} in {_near(figures)}")
    if report.interrupted:
        stopped = [one.notebook for one in report.outcomes if one.status == "stopped"]
        line()
        line(
            "Interrupted. Finished notebooks are kept; the same command goes on with "
            f"{', '.join(stopped) or 'nothing: all are finished'}."
        )


def _near(path: Path) -> str:
    """Return a path as seen from the current directory, if it lies below it."""
    path = path.resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
