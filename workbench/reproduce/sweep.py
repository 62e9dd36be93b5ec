"""One call of `workbench sweep`: a notebook at every point of a grid, what it keeps in one frame.

A sweep's folder::

    points.parquet, .csv         a row per point: parameters, status, seconds, reason, folder
    frames/NAME.parquet, .csv    a frame that the notebook keeps, of all finished points
    points/KEY/                  results of one point, as `workbench reproduce` keeps them

`KEY` is a hash of all parameters, so points of other sweeps in the same folder stay.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import results
from workbench.experiments.joined import joined
from workbench.parameters import DRIVER_PARAMETER, Value
from workbench.reproduce.driver import carry_out, one_interrupt, tasks_of
from workbench.reproduce.elsewhere import carry_out_elsewhere
from workbench.reproduce.grid import points
from workbench.reproduce.notebooks import Notebook, find, notebooks_folder, read_notebook
from workbench.reproduce.progress import Status, shown
from workbench.reproduce.report import near
from workbench.reproduce.runner import NotebookTask
from workbench.store.folder import clean, failed_copy, partial_folder, put_in_place, sole_writer
from workbench.store.provenance import digest
from workbench.utils import files, parallel
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from rich.console import Console

POINTS, FRAMES = "points", "frames"
_TOLD = 10
"""Failed points whose reasons are printed; the table has all."""


@dataclass(frozen=True)
class Point:
    """One point of a sweep: what varies, and the run of its notebook."""

    values: Mapping[str, Value]
    task: NotebookTask

    @property
    def name(self) -> str:
        """``"bandwidth_mbps=10.0, seed=1"``."""
        return ", ".join(f"{name}={value}" for name, value in self.values.items())

    @property
    def finished(self) -> bool:
        """Whether its results are there, from this run or an earlier one."""
        return self.task.progress.status in ("ran", "unchanged")

    def row(self, output: Path) -> dict[str, Any]:
        """Return its row in the table of points."""
        progress, name = self.task.progress, self.task.notebook.name
        kept = results.read_manifest(self.task.output / name) if self.finished else None
        status: Status = "stopped" if progress.status == "waiting" else progress.status
        folder = self.task.output.relative_to(output).as_posix()
        return {
            "status": "finished" if self.finished else status,
            "seconds": kept.seconds if kept else round(progress.wall_s, 3) or None,
            "reason": _first_line(progress.message) or None,
            "folder": folder if self.finished or status == "failed" else None,
        }


@dataclass(frozen=True)
class Swept:
    """What became of a sweep.

    Attributes
    ----------
    points
        A row per point, in the order of the grid: its parameters, ``status`` (``finished``,
        ``failed``, ``stopped``), ``seconds``, ``reason`` and ``folder``, below that of the sweep.
    frames
        By name, what the notebook kept at all finished points; see `joined`.
    interrupted
        Whether an interrupt ended it.
    """

    points: pl.DataFrame
    frames: Mapping[str, pl.DataFrame]
    interrupted: bool

    @property
    def exit_status(self) -> int:
        """0 if every point is finished, 130 after an interrupt, 1 if one failed."""
        if self.interrupted:
            return 130
        return int("failed" in self.points["status"])


def sweep(
    name: str,
    given: Mapping[str, str],
    *,
    scale: str | None = None,
    processes: int | None = None,
    address: str | None = None,
    output: Path | None = None,
    force: bool = False,
    console: Console | None = None,
    heartbeat_s: float = 15.0,
) -> Swept:
    """Run a notebook at every point of a grid, and keep what it keeps as one frame each.

    Finished points are kept, each at once, and not run again while nothing that they rest on has
    changed; failed ones are. Ctrl-C and other interrupts end all kernels.

    Parameters
    ----------
    name
        A notebook's path, or ``01_dynacomm``, ``dynacomm`` or ``01``.
    given
        Values of each parameter as written by the user; see `workbench.reproduce.grid`.
    scale
        ``"default"`` unless given.
    processes
        How many points run at once, each on one core if there are several; one per core by default.
    address
        Of a Ray cluster whose machines run the points instead, ``"auto"`` or ``"ray://HOST:PORT"``;
        they need the same package, data and versions.
    output
        The sweep's folder; ``data/sweeps/NOTEBOOK`` by default.
    force
        Run also points that are finished.
    console
        Where progress is shown; standard output by default.
    heartbeat_s
        The longest silence, in seconds, where no live display is possible.

    Raises
    ------
    UserError
        An unknown notebook or parameter, a value that is not allowed, a notebook that keeps
        nothing, a folder that cannot be written or that another run is writing, no such cluster.
    """
    import joblib
    from rich.console import Console

    console = console or Console()
    if processes is not None and processes < 1:
        raise UserError(f"--processes {processes}: must be at least 1")
    notebook = _notebook(name)
    grid = points(notebook, scale, given)
    if not notebook.keeps:
        raise UserError(
            f'{notebook.path.name} keeps no results: declare {DRIVER_PARAMETER}: str = "" in its '
            "parameters cell, and keep frames by Results(NAME, output).keep"
        )
    output = (output or results.default_folder().parent / "sweeps" / notebook.name).resolve()
    beside = min(len(grid), processes or joblib.cpu_count())
    alone = parallel.ONE_CORE | {"LOKY_MAX_CPU_COUNT": "1"}
    with one_interrupt(), sole_writer(output, [FRAMES]):
        runs = [(notebook, values, output / POINTS / _key(values)) for _, values in grid]
        tasks = tasks_of(runs, notebook.path.parent.parent, force)
        made = [Point(point, task) for (point, _), task in zip(grid, tasks, strict=True)]
        for point in made:
            point.task.output.mkdir(parents=True, exist_ok=True)
            clean(point.task.output, [notebook.name])
        waiting = sum(not point.finished for point in made)
        console.print(f"{waiting} of {len(made)} points of {notebook.name} to run", soft_wrap=True)
        progress = {point.name: point.task.progress for point in made}
        try:
            with shown(console, progress, heartbeat_s) as refresh:
                if address is None:
                    interrupted = carry_out(tasks, beside, refresh, alone if beside > 1 else {})
                else:
                    interrupted = carry_out_elsewhere(tasks, address, processes, refresh, alone)
        finally:
            for point in made:
                with contextlib.suppress(OSError):  # of one that left nothing
                    point.task.output.rmdir()
        table, frames, faults = _collected(made, output)
        _write(output, table, frames)
    swept = Swept(table, frames, interrupted)
    _print(console, swept, made, output, faults)
    return swept


def _notebook(name: str) -> Notebook:
    path = Path(name)
    if path.suffix == ".ipynb" and path.is_file():
        return read_notebook(path.resolve())
    (notebook,) = find(notebooks_folder(), [name])
    return notebook


def _key(values: Mapping[str, Value]) -> str:
    return digest(dict(values))[:16]


def _collected(
    made: Sequence[Point], output: Path
) -> tuple[pl.DataFrame, dict[str, pl.DataFrame], list[str]]:
    """Return the table of points, all frames that points have kept, and what cannot be joined."""
    varied = list(made[0].values)
    schema = {"status": pl.String, "seconds": pl.Float64, "reason": pl.String, "folder": pl.String}
    rows = [pl.DataFrame([point.row(output)], schema=schema) for point in made]
    table = joined([(point.values, row) for point, row in zip(made, rows, strict=True)])
    parts: dict[str, list[tuple[Mapping[str, Value], pl.DataFrame]]] = {}
    for point in filter(lambda point: point.finished, made):
        name = point.task.notebook.name
        for frame, own in results.load(point.task.output, results.system_of(name)).items():
            parts.setdefault(frame, []).append((point.values, own))
    frames, faults = dict[str, pl.DataFrame](), list[str]()
    for frame, kept in parts.items():
        try:
            frames[frame] = joined(kept, varied)
        except pl.exceptions.PolarsError as error:
            faults.append(f"{frame}: its columns differ from point to point: {_first_line(error)}")
    return table, frames, faults


def _write(output: Path, table: pl.DataFrame, frames: Mapping[str, pl.DataFrame]) -> None:
    with partial_folder(output, FRAMES) as partial:
        for name, frame in frames.items():
            _write_frame(partial / name, frame)
        put_in_place(partial, output, FRAMES)
    _write_frame(output / POINTS, table)


def _write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame as parquet and CSV, in which lists and structs are JSON."""
    files.write_parquet(path.with_name(f"{path.name}.parquet"), frame)
    text = io.StringIO()
    frame.with_columns(_flat(column) for column in frame if column.dtype.is_nested()).write_csv(
        text
    )
    files.write_text(path.with_name(f"{path.name}.csv"), text.getvalue())


def _flat(column: pl.Series) -> pl.Series:
    values = column.to_list()
    texts = [None if value is None else json.dumps(value, default=str) for value in values]
    return pl.Series(column.name, texts, dtype=pl.String)


def _print(
    console: Console, swept: Swept, made: Sequence[Point], output: Path, faults: Sequence[str]
) -> None:
    def line(text: str = "", style: str | None = None) -> None:
        console.print(text, style=style, soft_wrap=True, markup=False, highlight=False)

    failed = [point for point in made if point.task.progress.status == "failed"]
    finished = sum(point.finished for point in made)
    line()
    for point in failed[:_TOLD]:
        name, progress = point.task.notebook.name, point.task.progress
        line(f"{point.name}: failed in {_first_line(progress.message)}", "red")
        line(f"  {near(failed_copy(point.task.output, name))}")
    if len(failed) > _TOLD:
        line(f"{len(failed) - _TOLD} more failed: column reason of {POINTS}.csv")
    for fault in faults:
        line(f"left out: {fault}", "red")
    if finished and not swept.frames and not faults:
        line("no point has kept a frame: Results(NAME, output).keep keeps one")
    line(f"{finished} of {len(made)} points finished: {near(output / f'{POINTS}.parquet')}")
    for name, frame in swept.frames.items():
        path = near(output / FRAMES / f"{name}.parquet")
        line(f"  {path}  {len(frame):,} row{'' if len(frame) == 1 else 's'}")
        for renamed in (f"swept_{own}" for own in made[0].values):
            if renamed in frame.columns:
                own = renamed.removeprefix("swept_")
                line(f"    {renamed}: the parameter, since the frame has a column {own} of its own")
    if swept.interrupted:
        line("Interrupted. Finished points are kept; the same command goes on with the others.")


def _first_line(text: object) -> str:
    return str(text).partition("\n")[0]
