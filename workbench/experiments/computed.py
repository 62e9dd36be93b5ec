"""A function at every point, in this process, in several, or on the machines of a Ray cluster.

Ctrl-C loses the rows in progress, not those before them.
"""

from __future__ import annotations

import io
import math
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from rich.console import Console

from workbench.experiments.kept_points import KeptPoints, Row, Rows, call_name
from workbench.runtime import Run, progress
from workbench.utils import parallel
from workbench.utils.checks import UserError
from workbench.utils.files import expanded

Point = Mapping[str, Any]
Measure = Callable[..., Row | Iterable[Row] | pl.DataFrame]
"""Called with a point's values by name; returns a row as a dict, several, or a polars frame."""
Failures = type[Exception] | tuple[type[Exception], ...]


class ExperimentInterrupted(KeyboardInterrupt):
    """Ctrl-C ended an experiment before its last row; `frame` has the finished ones, maybe none.

    Where nobody catches it, it is in ``sys.last_value``.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        rows = "1 finished row is" if len(frame) == 1 else f"{len(frame)} finished rows are"
        super().__init__(f"interrupted; {rows} in `frame` of this error")
        self.frame = frame


@contextmanager
def keeping(frame: Callable[[], pl.DataFrame]) -> Iterator[None]:
    """Turn Ctrl-C into `ExperimentInterrupted`, with the rows that `frame` returns by then."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise ExperimentInterrupted(frame()) from error


def whole(run: Run) -> Run:
    """Return a simulation that ran to its end; raise KeyboardInterrupt for one that did not.

    A simulation returns normally at Ctrl-C, and half of one is no row.
    """
    if run.interrupted:
        raise KeyboardInterrupt
    return run


def computed(
    measure: Measure,
    points: Sequence[Point],
    *,
    title: str,
    shared: Point | None = None,
    labels: Collection[str] = (),
    processes: int | None = 1,
    address: str | None = None,
    folder: str | Path | None = None,
    cache: MutableMapping[str, Rows] | None = None,
    timed: bool = False,
    with_steps: bool = False,
    failures: Failures = (),
    unexpected: bool = False,
) -> Iterator[tuple[int, Rows]]:
    """Yield the number and the rows of each point as soon as they are there.

    Parameters
    ----------
    labels
        Names of values that describe a point and are not passed to the function.
    processes
        1 computes in this process, point by point; None uses a process per core. A function of a
        notebook's cell is sent to other processes with what it uses.
    address
        Of a Ray cluster, on whose machines points are computed; see `parallel.as_finished`.
    folder
        Keep each finished point here, and compute none again that is here already; see
        `KeptPoints`.
    cache
        Rows of finished points by their calls, taken from here and added, if there is no folder:
        for sweeps of one process that share points.
    timed
        Whether points measure time, so that nothing may run beside them.
    with_steps
        Whether to pass each call ``steps``, by which it shows how far it is.
    failures, unexpected
        As for `sweep`; points with unexpected failures are not kept, and their reason begins with
        the kind of the error.
    """
    calls = [without({**(shared or {}), **point}, labels) for point in points]
    kept = None if folder is None else KeptPoints(expanded(folder), measure)
    missing = []
    for at, call in enumerate(calls):
        if kept is not None:
            rows = kept.load(call)
        else:
            rows = None if cache is None else cache.get(call_name(measure, call))
        if rows is None:
            missing.append(at)
        else:
            yield at, rows
    processes = 1 if timed else processes

    def keep(at: int, made: _Made) -> None:
        if made.failed and unexpected:
            return
        if kept is not None:
            kept.save(calls[at], made.rows)
        elif cache is not None:
            cache[call_name(measure, calls[at])] = made.rows

    with progress.steps(title, len(missing)) as steps:
        if address is None and (processes == 1 or len(missing) <= 1):
            for at in missing:
                steps(_text(points[at]))
                try:
                    made = _measured(
                        measure, calls[at], failures, unexpected, steps if with_steps else None
                    )
                except ExperimentInterrupted as stopped:
                    yield at, stopped.frame.to_dicts()
                    raise
                keep(at, made)
                yield at, made.rows
            return
        beside = [(measure, calls[at], failures, unexpected, with_steps) for at in missing]
        for number, made in parallel.as_finished(_measured_elsewhere, beside, processes, address):
            at = missing[number]
            keep(at, made)
            yield at, made.rows
            steps(_text(points[at]))


def without(point: Point, labels: Collection[str]) -> dict[str, Any]:
    """Return a point's values other than its labels."""
    return {name: value for name, value in point.items() if name not in labels}


class _Made(NamedTuple):
    """Rows of a point, and whether it failed."""

    rows: list[Row]
    failed: bool


def _measured_elsewhere(
    measure: Measure, call: Point, failures: Failures, unexpected: bool, with_steps: bool
) -> _Made:
    """In a process beside others, whose lines of progress would overwrite each other."""
    silent = progress.Steps("", 0, progress.Line(Console(file=io.StringIO()), after_s=math.inf))
    return _measured(measure, call, failures, unexpected, silent if with_steps else None)


def _measured(
    measure: Measure,
    call: Point,
    failures: Failures,
    unexpected: bool,
    steps: progress.Steps | None,
) -> _Made:
    failed = False
    try:
        made = measure(**call) if steps is None else measure(**call, steps=steps)
    except failures as error:
        is_named = unexpected and not isinstance(error, UserError)
        reason = f"{type(error).__name__}: {error}" if is_named else str(error)
        made, failed = {"reason": reason}, True
    if isinstance(made, pl.DataFrame):
        made = made.to_dicts()
    rows = [made] if isinstance(made, Mapping) else made
    rows = list(rows) if isinstance(rows, Iterable) else [rows]
    if not all(isinstance(row, Mapping) for row in rows):
        raise UserError(
            f"{measure.__name__} returned {made!r}; return a row as a dict, several, or a frame"
        )
    return _Made(rows, failed)


def _text(point: Point) -> str:
    """A point in a line: ``resnet152, dynacomm, layers 40``."""
    return ", ".join(
        value.replace("_", " ") if isinstance(value, str) else f"{name.replace('_', ' ')} {value}"
        for name, value in point.items()
        if isinstance(value, str | int | float)
    )
