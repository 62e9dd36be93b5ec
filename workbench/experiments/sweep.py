"""A sweep: a function at every point of a grid, its rows in one frame.

Ctrl-C loses the rows in progress, not those before them.
"""

from __future__ import annotations

import io
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import polars as pl
from rich.console import Console

from workbench.experiments import finished
from workbench.experiments.finished import Row, Rows
from workbench.runtime import Run, progress
from workbench.utils import parallel

Point = Mapping[str, Any]
Measure = Callable[..., Row | Iterable[Row] | pl.DataFrame]
"""Called with a point's values by name, and ``steps``, which shows how far a long one is."""
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


def grid(**axes: Iterable[object]) -> list[dict[str, Any]]:
    """Return every combination, the last axis changing first.

    >>> grid(model=["lenet5"], batch_size=[16, 32])
    [{'model': 'lenet5', 'batch_size': 16}, {'model': 'lenet5', 'batch_size': 32}]
    """
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def sweep(
    title: str,
    measure: Measure,
    points: Sequence[Point],
    schema: Mapping[str, Any],
    *,
    shared: Point | None = None,
    processes: int | None = 1,
    timed: bool = False,
    remember: bool = False,
    failures: Failures = (),
    then: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> pl.DataFrame:
    """Return the rows of all points, in their order.

    Parameters
    ----------
    title
        Of the progress shown meanwhile.
    measure
        Makes a point's row, or rows; of a module, not of a cell, if there are several processes.
    points
        Arguments of each call. Those with the name of a column are in the rows as well.
    schema
        Columns and their types; null where neither point nor row has a value.
    shared
        Arguments of all calls.
    processes, timed, remember
        As for `computed`.
    failures
        Errors that make a point a row with the error in the column ``reason``. Any other error
        ends the sweep.
    then
        Adds columns that follow from several rows; also to the rows of an interrupted sweep.

    Raises
    ------
    ExperimentInterrupted
        At Ctrl-C, with the rows of the points that were finished.
    """
    if failures and "reason" not in schema:
        raise AssertionError(f"{title}: failures need a column 'reason' in the schema")
    everywhere = shared or {}
    finished_rows: dict[int, Rows] = {}

    def frame() -> pl.DataFrame:
        rows = [
            [{**everywhere, **points[at], **row}.get(name) for name in schema]
            for at in sorted(finished_rows)
            for row in finished_rows[at]
        ]
        return then(pl.DataFrame(rows, schema=schema, orient="row"))

    with keeping(frame):
        finished_rows.update(
            computed(
                title,
                measure,
                points,
                shared=everywhere,
                processes=processes,
                timed=timed,
                remember=remember,
                failures=failures,
            )
        )
    return frame()


def computed(
    title: str,
    measure: Measure,
    points: Sequence[Point],
    *,
    shared: Point | None = None,
    processes: int | None = 1,
    timed: bool = False,
    remember: bool = False,
    failures: Failures = (),
) -> Iterator[tuple[int, Rows]]:
    """Yield the number and the rows of each point as soon as they are there.

    Parameters
    ----------
    processes
        1 computes in this process, point by point; None uses a process per core.
    timed
        Whether points measure time, so that nothing may run beside them.
    remember
        Keep the rows in memory for other sweeps of this process.
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
    with progress.steps(title, len(missing)) as steps:
        if processes == 1 or len(missing) <= 1:
            for at in missing:
                steps(_text(points[at]))
                try:
                    rows, seconds = _timed(measure, calls[at], failures, steps)
                except ExperimentInterrupted as stopped:
                    yield at, stopped.frame.to_dicts()
                    raise
                if keys:
                    finished.keep(measure, keys[at], rows, seconds)
                yield at, rows
            return
        beside = [(measure, calls[at], failures) for at in missing]
        for number, (rows, seconds) in parallel.as_finished(_timed, beside, processes):
            at = missing[number]
            if keys:
                finished.keep(measure, keys[at], rows, seconds)
            yield at, rows
            steps(_text(points[at]))


def _timed(
    measure: Measure, call: Point, failures: Failures, steps: progress.Steps | None = None
) -> tuple[list[Row], float]:
    """Return the rows of a point, and the seconds that they took."""
    began_s = time.perf_counter()
    try:
        made = measure(**call, steps=steps or _silent())
    except failures as error:
        made = {"reason": str(error)}
    if isinstance(made, pl.DataFrame):
        made = made.to_dicts()
    rows = [made] if isinstance(made, Mapping) else list(made)
    return rows, time.perf_counter() - began_s


def _silent() -> progress.Steps:
    """Progress for a process beside others, whose lines would overwrite each other."""
    return progress.Steps("", 0, progress.Line(Console(file=io.StringIO()), after_s=math.inf))


def _text(point: Point) -> str:
    """A point in a line: ``resnet152, dynacomm, 40 layers``."""
    return ", ".join(
        value.replace("_", " ") if isinstance(value, str) else f"{value} {name.replace('_', ' ')}"
        for name, value in point.items()
        if isinstance(value, str | int | float)
    )
