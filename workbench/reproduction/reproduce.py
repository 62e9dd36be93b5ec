"""Runs notebooks from start to end and keeps their results, as the command `reproduce` does.

Each notebook runs in a process of its own. Its results are written to a hidden folder beside their
final place and moved there in one step when all are complete, so that a run may end at any moment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.reproduction import provenance, results, systems
from workbench.reproduction.execution import Outcome, Task, bring_home, duration, run, run_elsewhere
from workbench.reproduction.folder import sole_writer, writable
from workbench.reproduction.notebook_files import find, notebook_paths, notebooks_folder, resolve
from workbench.utils import files, parallel
from workbench.utils.checks import UserError
from workbench.utils.files import expanded
from workbench.utils.numbers import counted

MINUTES = {"smoke": 2, "default": 5}
"""What all notebooks take on two quiet cores, by scale, as measured; with one training each."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Report:
    """Outcomes of all notebooks, by name, and whether an interrupt ended the run."""

    outcomes: Mapping[str, Outcome]
    interrupted: bool = False

    @property
    def exit_status(self) -> int:
        """0 if every notebook ran, 130 after an interrupt, 1 if one failed."""
        failed = any(outcome.status == "failed" for outcome in self.outcomes.values())
        return 130 if self.interrupted else int(failed)


def reproduce(
    names: Sequence[str] = (),
    *,
    scale: str | None = None,
    given: Mapping[str, str] | None = None,
    notebooks: Path | None = None,
    output: Path | None = None,
    figures: Path | None = None,
    jobs: int | None = None,
) -> Report:
    """Run notebooks and keep their results.

    Everything that the user set is checked before the first notebook starts. A notebook that fails
    does not keep the others from running. An interrupt (Ctrl-C, SIGTERM, a closed terminal) ends
    all of them; what is finished stays.

    Parameters
    ----------
    names
        Notebooks by name, number or system; by default all.
    given
        Parameters as the user writes them, each set in the notebooks that have it.
    notebooks, output
        Folders of the notebooks and of their results.
    figures
        Folder to which all SVG figures are copied.
    jobs
        Notebooks that run at once; by default 2, or 1 on one core.

    Raises UserError: an unknown notebook or parameter, a value that is not allowed, a folder that
    cannot be written or that another run is writing.
    """
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
    versions, (revision, dirty) = provenance.all_versions(), provenance.revision(files.ROOT)
    tasks = [
        Task(book.name, book, values[book.name], output, versions, revision, dirty, {**os.environ})
        for book in chosen
    ]
    chosen_scale = scale or (given or {}).get("scale", "default")
    text = announcement(len(tasks), chosen_scale, (given or {}).get("trainings", "one"))
    outcomes = [Outcome("stopped")] * len(tasks)
    copied = []
    with one_interrupt(), sole_writer(output, notebook_paths(folder)):
        print(text, flush=True)
        try:
            for at, outcome in carry_out(tasks, jobs):
                outcomes[at] = outcome
                name = tasks[at].notebook.name
                print(f"{name}: {outcome.status} after {duration(outcome.wall_s)}", flush=True)
                if figures is not None and outcome.status == "ran":
                    copied += results.copy_figures(output, name, figures)
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = False
        report = Report(
            {task.notebook.name: outcome for task, outcome in zip(tasks, outcomes, strict=True)},
            interrupted,
        )
        _print_report(report, output)
        if copied and figures is not None:
            print(f"{counted(len(copied), 'figure')} in {near(figures)}")
        return report


def announcement(count: int, scale: str, trainings: str) -> str:
    """Say what runs, and how long all notebooks take where that is known."""
    text = f"{counted(count, 'notebook')} to run at scale {scale}"
    if trainings != "one":
        return text
    text += "; one training of each system runs here, others are shown as recorded"
    if count > 1 and scale in MINUTES:
        text += f"; all notebooks take about {MINUTES[scale]} minutes on two quiet cores"
    return text


def carry_out(
    tasks: Sequence[Task], processes: int | None, address: str | None = None
) -> Iterator[tuple[int, Outcome]]:
    """Run tasks, some at once, here or on a Ray cluster; yield the number of each and its outcome.

    The longest begin first, so that none runs alone at the end: `systems.LONGEST`, then those with
    most cells.
    """
    books = [task.notebook for task in tasks]
    order = sorted(
        range(len(tasks)),
        key=lambda at: (books[at].name not in systems.LONGEST, -books[at].code_cells),
    )
    queue = [tasks[at] for at in order]
    if address is None:
        calls = [(task,) for task in queue]
        with closing(
            parallel.as_finished(run, calls, processes, in_other_process=True)
        ) as finished:
            for number, outcome in finished:
                yield order[number], outcome
        return
    elsewhere = [(replace(task, environment=None), *_folder(task)) for task in queue]
    with closing(parallel.as_finished(run_elsewhere, elsewhere, processes, address)) as finished:
        for number, (outcome, written) in finished:
            yield order[number], bring_home(queue[number], outcome, written)


def _folder(task: Task) -> tuple[Path, bool]:
    """Return a notebook's folder, and whether it is in the repository, then relative to it."""
    folder = task.notebook.path.parent
    in_clone = folder.is_relative_to(files.ROOT)
    return (folder.relative_to(files.ROOT) if in_clone else folder), in_clone


def _print_report(report: Report, output: Path) -> None:
    """Print a line for each notebook, then the errors, then how to go on."""
    width = max(map(len, report.outcomes))
    print()
    for name, outcome in report.outcomes.items():
        took = duration(outcome.wall_s) if outcome.wall_s else ""
        place = f"  {near(outcome.place)}" if outcome.place else ""
        print(f"{name:<{width}}  {outcome.status:<7}  {took:>10}{place}")
    for name, outcome in report.outcomes.items():
        if outcome.status == "failed":
            print(f"\n{name} failed in {outcome.message}")
            earlier = results.read_manifest(output / name)
            if earlier is not None:
                print(f"Its results of {earlier.made_at} are still in {near(output)}.")
    if report.interrupted:
        stopped = [name for name, outcome in report.outcomes.items() if outcome.status == "stopped"]
        rest = f"name the others to run them: {' '.join(stopped)}" if stopped else "all are"
        print(f"\nInterrupted. Notebooks that ran are kept; {rest}")


def near(path: Path) -> str:
    """Return a path relative to the current directory, if it is below it."""
    path = path.resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


@contextlib.contextmanager
def one_interrupt() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the first Ctrl-C, SIGTERM or SIGHUP; ignore later ones.

    Signals that are ignored already (under ``nohup``, in a script's background) stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, and only it is interrupted
        return

    def interrupt(*_: object) -> None:
        for number in handlers:
            signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt

    handlers = {
        number: handler
        for number in _SIGNALS
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)  # None: not Python's
    }
    try:
        for number in handlers:
            signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
