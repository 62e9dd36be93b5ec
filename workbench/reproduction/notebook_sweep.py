"""Runs a notebook at every point of a grid, as the command `sweep` does.

What the notebook keeps is joined to one frame of all points. A sweep's folder::

    points.parquet, points.csv    a row per point: parameters, status, seconds, reason, folder
    frames/NAME.parquet           a frame that the notebook keeps, of all finished points
    points/KEY/                   results of one point, as `workbench reproduce` keeps them

`KEY` is a hash of the commit, versions, the notebook's cells and all parameters, so a finished
point is found again, and points of other sweeps in the same folder stay.

Several values of a parameter stand between commas, ``10,100,1000``; ``1..5`` are the whole numbers
from 1 to 5. A value that holds a comma stands in double quotes, as in a CSV file. What may be a
decimal comma, ``1,5`` for a parameter that is not a whole number, is refused.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from workbench.reproduction import provenance, results
from workbench.reproduction.execution import Outcome, Task
from workbench.reproduction.folder import (
    clean,
    failed_copy,
    partial_folder,
    put_in_place,
    sole_writer,
)
from workbench.reproduction.notebook_files import (
    Notebook,
    check_declared,
    find,
    notebooks_folder,
    read_notebook,
    resolve,
)
from workbench.reproduction.parameters import DRIVER_PARAMETER, Parameter, Value
from workbench.reproduction.reproduce import carry_out, near, one_interrupt
from workbench.reproduction.sweep import joined
from workbench.utils import files, parallel
from workbench.utils.checks import UserError
from workbench.utils.files import expanded
from workbench.utils.numbers import counted

MOST_POINTS = 10_000
_PRINTED_FAILURES = 10
_DECIMAL = re.compile(r"\s*[+-]?\d+,\d*[1-9]\s*", re.ASCII)  # ``10,100`` would not end in 0
_THOUSANDS = re.compile(r"\d,0\d", re.ASCII)
_RANGE = re.compile(r"\s*([+-]?\d{1,18})\s*\.\.\s*([+-]?\d{1,18})\s*", re.ASCII)


@dataclass(frozen=True)
class NotebookSweep:
    """How a sweep ended.

    Attributes
    ----------
    points
        A row per point, in the order of the grid: its parameters, ``status`` (``finished``,
        ``failed`` or ``stopped``), ``seconds``, ``reason`` and ``folder``, below the sweep's.
    frames
        What the notebook kept at all finished points, by name; see `joined`.
    interrupted
        Whether an interrupt ended it.
    """

    points: pl.DataFrame
    frames: Mapping[str, pl.DataFrame]
    interrupted: bool

    @property
    def exit_status(self) -> int:
        """0 if every point is finished, 130 after an interrupt, 1 if one failed."""
        return 130 if self.interrupted else int("failed" in self.points["status"])


def sweep(
    name: str,
    given: Mapping[str, str],
    *,
    scale: str | None = None,
    processes: int | None = None,
    address: str | None = None,
    output: Path | None = None,
    force: bool = False,
) -> NotebookSweep:
    """Run a notebook at every point of a grid, and join what it keeps.

    A finished point is kept at once, and not run again while commit, cells and parameters are the
    same; a failed one is. A change of code that is not committed is not seen: use `force` then.
    Points that run beside others compute on one core each; machines of a cluster need the same
    package, data and versions.

    Parameters
    ----------
    name
        A notebook by name, number or system, or the path of one.
    given
        Values of each parameter as the user writes them; see the module.
    processes
        Points that run at once; by default one per core.
    address
        Of a Ray cluster to run on.
    output
        The sweep's folder.
    force
        Run finished points, too.

    Raises UserError: an unknown notebook or parameter, a value that is not allowed, a notebook that
    keeps nothing, a folder that cannot be written or that another run is writing, no such cluster.
    """
    import joblib

    if processes is not None and processes < 1:
        raise UserError(f"--processes {processes}: must be at least 1")
    notebook = _notebook(name)
    points = grid(notebook, scale, given)
    if not notebook.keeps_results:
        raise UserError(
            f'{notebook.path.name} keeps no results: declare {DRIVER_PARAMETER}: str = "" in its '
            "parameters cell, and keep frames by Results(NAME, output).keep"
        )
    output = output or results.default_folder().parent / "sweeps" / notebook.name
    output = expanded(output).resolve()
    at_once = min(len(points), processes or joblib.cpu_count())
    environment = {**os.environ, **(parallel.ONE_CORE if at_once > 1 else {})}
    with one_interrupt(), sole_writer(output, ["frames"]):
        tasks = _tasks(notebook, points, output / "points", environment)
        for task in tasks:
            task.output.mkdir(parents=True, exist_ok=True)
            clean(task.output, [notebook.name])
        waiting = [at for at, task in enumerate(tasks) if force or not _is_finished(task)]
        print(f"{len(waiting)} of {len(tasks)} points of {notebook.name} to run", flush=True)
        outcomes, interrupted = dict[int, Outcome](), False
        try:
            for number, outcome in carry_out([tasks[at] for at in waiting], processes, address):
                outcomes[waiting[number]] = outcome
        except KeyboardInterrupt:
            interrupted = True
        for at in waiting:
            clean(tasks[at].output, [notebook.name])
        table = _table(points, tasks, outcomes, set(waiting) - outcomes.keys(), output)
        finished = table["status"] == "finished"
        frames, faults = _frames(points, tasks, finished.to_list())
        _write(output, table, frames)
    made = NotebookSweep(table, frames, interrupted)
    _print_report(made, tasks, outcomes, faults, output)
    return made


def _notebook(name: str) -> Notebook:
    path = expanded(name)
    if path.suffix == ".ipynb" and path.is_file():
        return read_notebook(path.resolve())
    (notebook,) = find(notebooks_folder(), [name])
    return notebook


def _tasks(
    notebook: Notebook,
    points: Iterable[tuple[Mapping[str, Value], Mapping[str, Value]]],
    folder: Path,
    environment: Mapping[str, str],
) -> list[Task]:
    versions = provenance.all_versions()
    revision, dirty = provenance.revision(files.ROOT)
    tasks = []
    for point, values in points:
        title = ", ".join(f"{name}={value}" for name, value in point.items())
        about = json.dumps([revision, versions, notebook.cells, dict(values)], sort_keys=True)
        output = folder / hashlib.sha256(about.encode()).hexdigest()[:16]
        tasks.append(Task(title, notebook, values, output, versions, revision, dirty, environment))
    return tasks


def _is_finished(task: Task) -> bool:
    """Whether a point's results are whole."""
    folder = task.output / task.notebook.name
    manifest = results.read_manifest(folder)
    return manifest is not None and not manifest.altered(folder)


def _table(
    points: Sequence[tuple[Mapping[str, Value], Mapping[str, Value]]],
    tasks: Sequence[Task],
    outcomes: Mapping[int, Outcome],
    stopped: set[int],
    output: Path,
) -> pl.DataFrame:
    """Return the table of points."""
    schema = {"status": pl.String, "seconds": pl.Float64, "reason": pl.String, "folder": pl.String}
    rows = []
    for at, ((point, _), task) in enumerate(zip(points, tasks, strict=True)):
        folder, failure = task.output.relative_to(output).as_posix(), outcomes.get(at)
        manifest = results.read_manifest(task.output / task.notebook.name)
        row: dict[str, Any]
        if failure is not None and failure.status == "failed":
            row = {
                "status": "failed",
                "seconds": round(failure.wall_s, 3),
                "reason": failure.message.partition("\n")[0],
                "folder": folder if failure.place else None,
            }
        elif at in stopped or manifest is None:
            row = {"status": "stopped"}
        else:
            row = {"status": "finished", "seconds": manifest.seconds, "folder": folder}
        if not any(task.output.iterdir()):
            task.output.rmdir()
        rows.append((point, pl.DataFrame([row], schema=schema)))
    return joined(rows)


def _frames(
    points: Sequence[tuple[Mapping[str, Value], Mapping[str, Value]]],
    tasks: Sequence[Task],
    finished: Sequence[bool],
) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """Return what finished points have kept, joined by name, and what cannot be joined."""
    parts: dict[str, list[tuple[Mapping[str, Value], pl.DataFrame]]] = {}
    for (point, _), task, is_finished in zip(points, tasks, finished, strict=True):
        system = results.system_of(task.notebook.name)
        kept = results.load(task.output, system).frames if is_finished else {}
        for name, frame in kept.items():
            parts.setdefault(name, []).append((point, frame))
    frames, faults = dict[str, pl.DataFrame](), list[str]()
    for name, rows in parts.items():
        try:
            frames[name] = joined(rows, points[0][0])
        except pl.exceptions.PolarsError as error:
            reason = str(error).partition("\n")[0]
            faults.append(f"{name}: its columns differ from point to point: {reason}")
    return frames, faults


def _write(output: Path, table: pl.DataFrame, frames: Mapping[str, pl.DataFrame]) -> None:
    """Write the table of points, and the frames in the place of all earlier ones."""
    with partial_folder(output, "frames") as partial:
        for name, frame in frames.items():
            files.write_parquet(partial / f"{name}.parquet", frame)
        put_in_place(partial, output, "frames")
    files.write_parquet(output / "points.parquet", table)
    files.write_text(output / "points.csv", table.write_csv())


def _print_report(
    made: NotebookSweep,
    tasks: Sequence[Task],
    outcomes: Mapping[int, Outcome],
    faults: Iterable[str],
    output: Path,
) -> None:
    """Print failed points with their reasons, then what was written, and how to go on."""
    failed = [at for at, outcome in outcomes.items() if outcome.status == "failed"]
    finished = made.points["status"].to_list().count("finished")
    print()
    for at in sorted(failed)[:_PRINTED_FAILURES]:
        print(f"{tasks[at].title}: failed in {outcomes[at].message.partition(chr(10))[0]}")
        copy = failed_copy(tasks[at].output, tasks[at].notebook.name)
        if copy.exists():
            print(f"  {near(copy)}")
    if len(failed) > _PRINTED_FAILURES:
        print(f"{len(failed) - _PRINTED_FAILURES} more failed: column reason of points.csv")
    for fault in faults:
        print(f"left out: {fault}")
    if finished and not made.frames and not faults:
        print("no point has kept a frame: Results(NAME, output).keep keeps one")
    print(f"{finished} of {len(tasks)} points finished: {near(output / 'points.parquet')}")
    for name, frame in made.frames.items():
        rows = counted(len(frame), "row")
        print(f"  {near(output / 'frames' / f'{name}.parquet')}  {rows}")
        for column in frame.columns:
            if column.startswith("swept_"):
                own = column.removeprefix("swept_")
                print(f"    {column}: the parameter, since the frame has a column {own} of its own")
    if made.interrupted:
        print("Interrupted. Finished points are kept; the same command goes on with the others.")


def grid(
    notebook: Notebook, scale: str | None, given: Mapping[str, str]
) -> list[tuple[dict[str, Value], dict[str, Value]]]:
    """Return each point's parameters: those given, and all of the notebook; the last changes first.

    Raises UserError: a parameter that the notebook lacks, a value that is not allowed, or given
    twice; no parameter, or more than `MOST_POINTS` points.
    """
    if not given:
        raise UserError("nothing varies: give values as in -p seed=1..5 -p batch_size=16,32")
    for name in given:
        check_declared(name, [notebook])
    if scale is not None and "scale" in given:
        raise UserError("the scale is given twice: by --scale and by -p scale=…")
    everywhere = resolve([notebook], scale, {})[notebook.name]
    axes = {name: values_of(notebook.parameters[name], text) for name, text in given.items()}
    count = math.prod(map(len, axes.values()))
    if count > MOST_POINTS:
        raise UserError(f"these are {count:,} points; a sweep has at most {MOST_POINTS:,}")
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [(point, {**everywhere, **point}) for point in points]


def values_of(parameter: Parameter, text: str) -> list[Value]:
    """Return the values that a text writes, each once and checked."""
    is_number = parameter.kind in (int, float)
    decimal = parameter.kind is float and _DECIMAL.fullmatch(text)
    if decimal or (is_number and _THOUSANDS.search(text)):
        raise UserError(
            f"{parameter.name}={text}: one number or two? Write decimals with a point, as in 1.5, "
            "thousands without a mark, as in 1500, and two numbers with a space, as in '1, 5'"
        )
    values: list[Value] = []
    for part in _parts(parameter, text):
        ends = _RANGE.fullmatch(part) if is_number else None
        values += _range(parameter, part, int(ends[1]), int(ends[2])) if ends else []
        values += [] if ends else [parameter.parse(part)]
    for at, value in enumerate(values):
        if value in values[:at]:
            raise UserError(f"{parameter.name}={text}: {value} is given twice")
    return values


def _parts(parameter: Parameter, text: str) -> Sequence[str]:
    try:
        parts = next(csv.reader([text], skipinitialspace=True, strict=True)) or [""]
    except csv.Error:
        raise UserError(
            f"{parameter.name}={text}: a quotation mark is missing; write a value with a comma as "
            f'"a,b"'
        ) from None
    if len(parts) > 1 and not all(part.strip() for part in parts):
        raise UserError(f"{parameter.name}={text}: a value is missing beside a comma")
    return parts


def _range(parameter: Parameter, text: str, first: int, last: int) -> list[Value]:
    if last < first:
        raise UserError(f"{parameter.name}={text}: give the smaller number first, {last}..{first}")
    if last - first >= MOST_POINTS:
        raise UserError(
            f"{parameter.name}={text}: these are {last - first + 1:,} values; "
            f"a sweep has at most {MOST_POINTS:,} points"
        )
    return [parameter.parse(str(number)) for number in range(first, last + 1)]
