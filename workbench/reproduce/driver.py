"""One call of `workbench reproduce`: check, plan, run, report."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import results
from workbench.parameters import Value
from workbench.reproduce.execution import Kernels
from workbench.reproduce.notebooks import Notebook, find, notebook_paths, notebooks_folder, resolve
from workbench.reproduce.progress import Progress, shown
from workbench.reproduce.report import Report, outcome, print_report
from workbench.reproduce.runner import NotebookTask, run
from workbench.store import provenance
from workbench.store.folder import sole_writer, writable
from workbench.utils.checks import UserError
from workbench.utils.files import expanded

if TYPE_CHECKING:
    from rich.console import Console

_TICK_S = 0.25
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

MINUTES = {("smoke", "one"): 4, ("default", "one"): 15}
"""What all notebooks take on two cores, by scale and which trainings run, as far as measured."""


def reproduce(
    names: Sequence[str] = (),
    *,
    scale: str | None = None,
    given: Mapping[str, str] | None = None,
    notebooks: Path | None = None,
    output: Path | None = None,
    figures: Path | None = None,
    jobs: int | None = None,
    force: bool = False,
    console: Console | None = None,
) -> Report:
    """Run notebooks and keep their results; what a run at this commit has finished stays.

    Everything that the user set is checked before the first notebook starts. A notebook that fails
    does not keep the others from running. An interrupt (Ctrl-C, SIGTERM, a closed terminal) ends
    all kernels and returns a report of what is finished.

    The arguments are those of the command; `given` are parameters as the user writes them, each
    set in the notebooks that have it.

    Raises UserError: an unknown notebook or parameter, a value that is not allowed, a folder that
    cannot be written or that another run is writing.
    """
    from rich.console import Console

    console = console or Console()
    jobs = min(2, os.cpu_count() or 1) if jobs is None else jobs
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: must be at least 1")
    notebooks, output, figures = (path and expanded(path) for path in (notebooks, output, figures))
    folder = notebooks_folder(notebooks)
    chosen = find(folder, names)
    values = resolve(chosen, scale, given or {})
    output = (output or results.default_folder(notebooks and folder.parent)).resolve()
    if figures is not None:
        writable(figures)
    copied: list[Path] = []
    with one_interrupt(), sole_writer(output, notebook_paths(folder)):
        runs = [(notebook, values[notebook.name], output) for notebook in chosen]
        tasks = plan(runs, folder.parent, force)
        progress = {task.notebook.name: task.progress for task in tasks}
        console.print(announced(tasks, values), soft_wrap=True)
        with shown(console, progress) as refresh:
            interrupted = carry_out(tasks, jobs, refresh)
        outcomes = tuple(outcome(output, name, state) for name, state in progress.items())
        for ended in outcomes:
            if figures is not None and ended.status in ("ran", "unchanged"):
                copied += results.copy_figures(output, ended.notebook, figures)
    report = Report(outcomes, interrupted, tuple(copied))
    print_report(console, report, output, figures)
    return report


def announced(tasks: Sequence[NotebookTask], values: Mapping[str, Mapping[str, Value]]) -> str:
    """Say what runs, and how long all of it takes where that is known."""
    waiting = sum(task.progress.status == "waiting" for task in tasks)
    scale = max(str(own.get("scale")) for own in values.values())
    which = "all" if any(own.get("trainings") == "all" for own in values.values()) else "one"
    text = f"{waiting} of {len(tasks)} notebooks to run at scale {scale}"
    if which == "one":
        text += "; one training of each system runs here, others are shown as recorded"
    minutes = MINUTES.get((scale, which))
    if minutes and waiting > 1:
        text += f"; all notebooks take about {minutes} minutes on two quiet cores"
    return text


def plan(
    runs: Iterable[tuple[Notebook, Mapping[str, Value], Path]], root: Path, force: bool
) -> list[NotebookTask]:
    """Return a task for each notebook, its values and its folder of results.

    Its progress says whether and why the notebook has to run.
    """
    versions = provenance.all_versions()
    revision, dirty = provenance.revision(root)
    tasks = []
    for notebook, own, output in runs:
        progress = Progress(notebook.code_cells)
        task = NotebookTask(notebook, own, root, output, versions, revision, dirty, progress)
        progress.reason = "forced" if force else task.why()
        if not progress.reason:
            progress.status = "unchanged"
        tasks.append(task)
    return tasks


def carry_out(
    tasks: Sequence[NotebookTask],
    jobs: int,
    refresh: Callable[[], None],
    environment: Mapping[str, str] = {},
) -> bool:
    """Run the waiting tasks, `jobs` at once; return whether an interrupt ended them early.

    `environment` is added to that of their kernels.
    """
    kernels = Kernels(environment)
    # The longest first, so that none runs alone at the end; most cells take longest.
    waiting = sorted(
        (task for task in tasks if task.progress.status == "waiting"),
        key=lambda task: -task.progress.cells,
    )
    with ThreadPoolExecutor(jobs) as pool:
        try:
            pending: set[Future[None]] = {pool.submit(run, task, kernels) for task in waiting}
            while pending:
                done, pending = wait(pending, timeout=_TICK_S, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                refresh()
        except BaseException as error:
            kernels.end_all()
            pool.shutdown(cancel_futures=True)
            if not isinstance(error, KeyboardInterrupt):
                raise
            return True
    return False


@contextlib.contextmanager
def one_interrupt() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the first Ctrl-C, SIGTERM or SIGHUP; ignore later ones.

    Signals that are ignored already (under ``nohup``, in a script's background) stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, and only it is interrupted
        return

    def interrupt(*_: object) -> None:
        for number in before:
            signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt

    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {
        number: handler
        for number, handler in handlers.items()
        if handler not in (signal.SIG_IGN, None)  # None: set by other than Python
    }
    try:
        for number in before:
            signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
