"""One call of `workbench reproduce`: check, plan, run, report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import results
from workbench.errors import UserError
from workbench.parameters import Value
from workbench.reproduce.display import shown
from workbench.reproduce.inputs import fingerprint, why
from workbench.reproduce.interrupts import one_interrupt
from workbench.reproduce.kernels import Kernels
from workbench.reproduce.notebooks import Notebook, find, notebook_paths, notebooks_folder
from workbench.reproduce.progress import Progress
from workbench.reproduce.report import Report, outcome, print_report
from workbench.reproduce.runner import NotebookTask, run
from workbench.reproduce.values import resolve
from workbench.store import provenance
from workbench.store.folder import sole_writer, writable

if TYPE_CHECKING:
    from rich.console import Console

_TICK_S = 0.25

MINUTES = {("smoke", "one"): 2, ("default", "one"): 6, ("default", "all"): 25}
"""What all notebooks take on two cores, by scale and which trainings run; said at the start."""


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
    heartbeat_s: float = 15.0,
) -> Report:
    """Run notebooks whose inputs have changed, and keep their results.

    Everything that the user set is checked before the first notebook starts. A notebook that fails
    does not keep the others from running. An interrupt (Ctrl-C, SIGTERM, a closed terminal) ends
    all kernels and returns a report of what is finished.

    Parameters
    ----------
    names
        ``01_dynacomm``, ``dynacomm`` or ``01``; every notebook by default.
    scale
        ``"smoke"``, ``"default"`` or ``"paper"``; ``"default"`` if neither this nor `given` says.
    given
        Other parameters as written by the user; each is set in the notebooks that have it.
    notebooks
        Where the notebooks are; see `notebooks_folder`.
    output
        Where ``NOTEBOOK/`` folders are put; ``data/results`` beside the notebooks by default.
    figures
        A folder that also gets all SVG figures, as ``SYSTEM_FIGURE.svg``.
    jobs
        How many notebooks run at once; two by default, where there are two cores.
    force
        Run also what has not changed.
    console
        Where progress is shown; standard output by default.
    heartbeat_s
        Most seconds between two lines where no live display is possible.

    Raises
    ------
    ValueError
        An unknown notebook or parameter, a value that is not allowed, a folder that cannot be
        written, an output that another run is writing.
    """
    from rich.console import Console

    console = console or Console()
    jobs = min(2, os.cpu_count() or 1) if jobs is None else jobs
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: must be at least 1")
    folder = notebooks_folder(notebooks)
    chosen = find(folder, names)
    values = resolve(chosen, scale, given or {})
    output = (output or results.default_folder(folder.parent)).resolve()
    if figures is not None:
        writable(figures)
    copied: list[Path] = []
    with one_interrupt(), sole_writer(output, notebook_paths(folder)):
        tasks = plan(chosen, values, folder.parent, output, force)
        progress = {task.notebook.name: task.progress for task in tasks}
        console.print(announced(tasks, values), soft_wrap=True)
        with shown(console, progress, heartbeat_s) as refresh:
            interrupted = carry_out(tasks, jobs, refresh)
        outcomes = tuple(outcome(output, name, one) for name, one in progress.items())
        for one in outcomes:
            if figures is not None and one.status in ("ran", "unchanged"):
                copied += results.copy_figures(output, one.notebook, figures)
    report = Report(outcomes, interrupted, tuple(copied))
    print_report(console, report, output, figures)
    return report


def announced(tasks: Sequence[NotebookTask], values: Mapping[str, Mapping[str, Value]]) -> str:
    """Say what runs, and how long all of it takes where that is known."""
    waiting = sum(task.progress.status == "waiting" for task in tasks)
    asked = {(one.get("scale"), one.get("trainings", "one")) for one in values.values()}
    scale, which = max(asked, key=str)
    text = f"{waiting} of {len(tasks)} notebooks to run at scale {scale}"
    if which == "one":
        text += "; one training of each system runs here, others are shown as recorded"
    minutes = MINUTES.get((str(scale), str(which)))
    if minutes and waiting > 1:
        text += f"; all notebooks take about {minutes} minutes on two quiet cores"
    return text


def plan(
    notebooks: Sequence[Notebook],
    values: Mapping[str, Mapping[str, Value]],
    root: Path,
    output: Path,
    force: bool,
) -> list[NotebookTask]:
    """Return a task per notebook; its progress says whether and why the notebook has to run."""
    versions = provenance.all_versions()
    revision, dirty = provenance.revision(root)
    tasks = []
    for one in notebooks:
        own = values[one.name]
        kept = results.read_manifest(output / one.name)
        inputs = fingerprint(one, own, root, versions)
        reason = "forced" if force else why(output / one.name, kept, inputs)
        progress = Progress(one.code_cells, "waiting" if reason else "unchanged", reason)
        tasks.append(NotebookTask(one, own, root, output, versions, revision, dirty, progress))
    return tasks


def carry_out(tasks: Sequence[NotebookTask], jobs: int, refresh: Callable[[], None]) -> bool:
    """Run the waiting tasks, `jobs` at once; return whether an interrupt ended them early."""
    kernels = Kernels()
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
