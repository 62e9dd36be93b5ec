"""A function at every point, in this process, in several, or on the machines of a Ray cluster.

Ctrl-C loses the rows in progress, not those before them.
"""

from __future__ import annotations

import inspect
import io
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import polars as pl
from rich.console import Console

from workbench.experiments import finished
from workbench.experiments.finished import Row, Rows
from workbench.runtime import Run, progress
from workbench.utils import parallel
from workbench.utils.checks import UserError

Point = Mapping[str, Any]
Measure = Callable[..., Row | Iterable[Row] | pl.DataFrame]
"""Called with a point's values by name, and ``steps`` if it asks for that: it shows how far it is.

It returns a row as a dict, several, or a polars frame.
"""
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
    processes: int | None = 1,
    address: str | None = None,
    timed: bool = False,
    remember: bool = False,
    failures: Failures = (),
    named: bool = False,
) -> Iterator[tuple[int, Rows]]:
    """Yield the number and the rows of each point as soon as they are there.

    Parameters
    ----------
    processes
        1 computes in this process, point by point; None uses a process per core. A function of a
        notebook's cell is sent to other processes with what it uses.
    address
        Of a Ray cluster, on whose machines points are computed; see `parallel.as_finished`.
    timed
        Whether points measure time, so that nothing may run beside them.
    remember
        Keep the rows in memory for other sweeps of this process.
    failures, named
        As for `sweep`; whether the reason begins with the kind of the error.
    """
    calls = [{**(shared or {}), **point} for point in points]
    under_way, missing = finished.current(), []
    keys = [finished.key(measure, call) for call in calls] if under_way or remember else []
    known = finished.look_up(measure, keys) if keys else [None] * len(calls)
    for at, rows in enumerate(known):
        if rows is None:
            missing.append(at)
        else:
            yield at, rows
    processes = 1 if timed else under_way.processes if under_way else processes

    def keep(at: int, made: _Made) -> None:
        if keys and (under_way is None or under_way.failed or not made.failed):
            finished.keep(measure, keys[at], made.rows, made.seconds)

    with progress.steps(title, len(missing)) as steps:
        if address is None and (processes == 1 or len(missing) <= 1):
            for at in missing:
                steps(_text(points[at]))
                try:
                    made = _measured(measure, calls[at], failures, named, steps)
                except ExperimentInterrupted as stopped:
                    yield at, stopped.frame.to_dicts()
                    raise
                keep(at, made)
                yield at, made.rows
            return
        beside = [(measure, calls[at], failures, named) for at in missing]
        for number, made in parallel.as_finished(_measured, beside, processes, address):
            at = missing[number]
            keep(at, made)
            yield at, made.rows
            steps(_text(points[at]))


class _Made(NamedTuple):
    """Rows of a point, the seconds that they took, and whether it failed."""

    rows: list[Row]
    seconds: float
    failed: bool


def _measured(
    measure: Measure,
    call: Point,
    failures: Failures,
    named: bool,
    steps: progress.Steps | None = None,
) -> _Made:
    began_s, failed = time.perf_counter(), False
    taken = inspect.signature(measure).parameters
    any_name = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    asks = "steps" not in call and ("steps" in taken or any_name)
    try:
        made = measure(**call, **({"steps": steps or _silent()} if asks else {}))
    except failures as error:
        kind = f"{type(error).__name__}: " if named and not isinstance(error, UserError) else ""
        made, failed = {"reason": f"{kind}{error}"}, True
    if isinstance(made, pl.DataFrame):
        made = made.to_dicts()
    rows = [made] if isinstance(made, Mapping) else made
    rows = list(rows) if isinstance(rows, Iterable) else [rows]
    if not all(isinstance(row, Mapping) for row in rows):
        raise UserError(
            f"{measure.__name__} returned {made!r}; return a row as a dict, several, or a frame"
        )
    return _Made(rows, time.perf_counter() - began_s, failed)


def _silent() -> progress.Steps:
    """Progress for a process beside others, whose lines would overwrite each other."""
    return progress.Steps("", 0, progress.Line(Console(file=io.StringIO()), after_s=math.inf))


def _text(point: Point) -> str:
    """A point in a line: ``resnet152, dynacomm, layers 40``."""
    return ", ".join(
        value.replace("_", " ") if isinstance(value, str) else f"{name.replace('_', ' ')} {value}"
        for name, value in point.items()
        if isinstance(value, str | int | float)
    )
