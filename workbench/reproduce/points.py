"""What became of a sweep's points: their table, and what they kept, as one frame of all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import results
from workbench.experiments.joined import Part, joined
from workbench.parameters import Value
from workbench.reproduce.progress import Status
from workbench.reproduce.report import near
from workbench.reproduce.runner import NotebookTask
from workbench.store.folder import failed_copy, partial_folder, put_in_place
from workbench.utils import files

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
        ended = self.finished or status == "failed"
        return {
            "status": "finished" if self.finished else status,
            "seconds": kept.seconds if kept else round(progress.wall_s, 3) or None,
            "reason": _first_line(progress.message) or None,
            "folder": folder if ended and self.task.output.is_dir() else None,
        }


@dataclass(frozen=True)
class Swept:
    """What became of a sweep, and whether an interrupt ended it.

    `points` has a row per point, in the order of the grid: its parameters, ``status``
    (``finished``, ``failed``, ``stopped``), ``seconds``, ``reason`` and ``folder``, below that of
    the sweep; `frames`, by name, what the notebook kept at all finished points (see `joined`).
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


def collected(
    made: Sequence[Point], output: Path
) -> tuple[pl.DataFrame, dict[str, pl.DataFrame], list[str]]:
    """Return the table of points, all frames that points have kept, and what cannot be joined."""
    varied = list(made[0].values)
    schema = {"status": pl.String, "seconds": pl.Float64, "reason": pl.String, "folder": pl.String}
    rows = [pl.DataFrame([point.row(output)], schema=schema) for point in made]
    table = joined([(point.values, row) for point, row in zip(made, rows, strict=True)])
    parts: dict[str, list[Part]] = {}
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


def write(output: Path, table: pl.DataFrame, frames: Mapping[str, pl.DataFrame]) -> None:
    """Write the table of points, and the frames in the place of all earlier ones."""
    with partial_folder(output, FRAMES) as partial:
        for name, frame in frames.items():
            _write_frame(partial / name, frame)
        put_in_place(partial, output, FRAMES)
    _write_frame(output / POINTS, table)


def _write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame as parquet and CSV."""
    files.write_parquet(path.with_name(f"{path.name}.parquet"), frame)
    text = frame.with_columns(map(_flat, frame)).write_csv()
    files.write_text(path.with_name(f"{path.name}.csv"), text)


def _flat(column: pl.Series) -> pl.Series:
    """A column as CSV takes it: durations in seconds, bytes in hexadecimal, lists as JSON.

    JSON has neither NaN nor infinities: within lists they are null.
    """
    if isinstance(column.dtype, pl.Duration):
        return column.dt.total_seconds(fractional=True)
    if column.dtype == pl.Binary:
        return column.bin.encode("hex")
    if not column.dtype.is_nested():
        return column
    values = column.to_list()
    texts = [
        None if value is None else json.dumps(_plain(value), default=_text) for value in values
    ]
    return pl.Series(column.name, texts, dtype=pl.String)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _text(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.hex() if isinstance(value, bytes) else str(value)


def print_swept(
    console: Console, swept: Swept, made: Sequence[Point], output: Path, faults: Sequence[str]
) -> None:
    """Print failed points with their reasons, then what was written, and how to go on."""

    def line(text: str = "", style: str | None = None) -> None:
        console.print(text, style=style, soft_wrap=True, markup=False, highlight=False)

    failed = [point for point in made if point.task.progress.status == "failed"]
    finished = sum(point.finished for point in made)
    line()
    for point in failed[:_TOLD]:
        name, progress = point.task.notebook.name, point.task.progress
        line(f"{point.name}: failed in {_first_line(progress.message)}", "red")
        if (copy := failed_copy(point.task.output, name)).exists():
            line(f"  {near(copy)}")
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
