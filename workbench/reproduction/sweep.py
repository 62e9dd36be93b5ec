"""Rows of a function at every point of a grid, in one frame.

::

    def trained(bandwidth_mbps, seed):
        ...
        return {"top1": ..., "seconds": ...}

    sweep(trained, grid(bandwidth_mbps=[10, 100], seed=range(3)), processes=2, folder="trial")

Points are computed in this process, in several, or on the machines of a Ray cluster. Ctrl-C loses
the points in progress, and none that was finished before.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from workbench.reproduction.folder import writable
from workbench.reproduction.points import PointFolder, Row, Rows, check_nameable, point_names
from workbench.runtime import Run, progress
from workbench.utils import parallel
from workbench.utils.checks import UserError, check_whole
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
def interruptible(frame: Callable[[], pl.DataFrame]) -> Iterator[None]:
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

    Raises UserError: text or a single value in the place of several.
    """
    for name, values in axes.items():
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise UserError(f"{name} is {values!r}; give its values, as in {name}=[{values!r}]")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def sweep(
    measure: Measure,
    points: Sequence[Point],
    schema: Mapping[str, Any] | None = None,
    *,
    title: str | None = None,
    shared: Point | None = None,
    labels: Collection[str] = (),
    processes: int | None = 1,
    address: str | None = None,
    folder: str | Path | None = None,
    cache: MutableMapping[str, Rows] | None = None,
    with_steps: bool = False,
    failures: Failures | None = None,
    then: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> pl.DataFrame:
    """Return the rows of all points, in their order.

    Parameters
    ----------
    measure
        Makes a point's row, or rows.
    points
        Arguments of each call, as `grid` makes them. They are in the rows as well.
    schema
        Columns and their types; null where neither point nor row has a value. By default a column
        for each argument, then those of the rows, then ``reason``; an argument whose name is also a
        column of the rows, with other values, is called ``swept_NAME``.
    title
        Of the progress shown meanwhile; the function's name by default.
    shared
        Arguments of all calls.
    labels
        Names of values that describe a point and are not passed to the function.
    processes, address
        Where points are computed: 1 is this process, with nothing beside it; None a process per
        core; the address that of a Ray cluster. See `parallel.as_finished`.
    folder
        Keep each finished point here, and compute none again that is here already, unless the
        source of the function has changed. A change elsewhere, such as in what it calls, is not
        seen: give another folder then.
    cache
        A dict that does the same in this process, if there is no folder.
    with_steps
        Whether to pass each call ``steps``, by which it shows how far it is.
    failures
        Errors that make a point a row with the error in the column ``reason``; by default, without
        a schema, any: points with unexpected errors are not kept. Other errors end the sweep.
    then
        Adds columns that follow from several rows; also to the rows of an interrupted sweep.

    Raises
    ------
    UserError
        Points that the function does not take, or that could not be found again in a folder.
    ExperimentInterrupted
        At Ctrl-C, with the rows of the points that were finished.
    """
    if not callable(measure):
        raise UserError(f"{measure!r} is not a function; as in sweep(train, grid(seed=range(3)))")
    if failures is None:
        failures = Exception if schema is None else ()
    if failures and schema is not None and "reason" not in schema:
        raise AssertionError(f"{_name(measure)}: failures need a column 'reason' in the schema")
    if processes is not None:
        check_whole("processes", processes, 1)
    shared, points = shared or {}, list(points)
    calls = _calls(measure, points, shared, labels, with_steps)
    if schema is None and any("reason" in point for point in points):
        raise UserError("a point's value is called 'reason', as is why one failed: rename it")
    store: PointFolder | MutableMapping[str, Rows] | None = cache
    if folder is not None:
        writable(expanded(folder))
        check_nameable(measure, calls)
        store = PointFolder(expanded(folder))
    names = [] if store is None else point_names(measure, calls)
    finished: dict[int, Rows] = {}

    def frame() -> pl.DataFrame:
        rows = [(points[at], finished[at]) for at in sorted(finished)]
        if schema is None:
            return then(_with_inferred_columns(rows, points))
        return then(_with_schema([({**shared, **point}, of) for point, of in rows], schema))

    with interruptible(frame):
        for at, name in enumerate(names):
            if store is not None and (rows := store.get(name)) is not None:
                finished[at] = rows
        missing = [at for at in range(len(calls)) if at not in finished]
        outcomes = _outcomes(
            [_Task(measure, calls[at], failures, with_steps) for at in missing],
            [_text(points[at]) for at in missing],
            title=_name(measure).replace("_", " ") if title is None else title,
            processes=processes,
            address=address,
        )
        with closing(outcomes):
            for number, outcome in outcomes:
                at = missing[number]
                if store is not None and outcome.final:
                    store[names[at]] = outcome.rows
                finished[at] = outcome.rows
    return frame()


class _Task(NamedTuple):
    """The call of a point, and which of its errors are a row."""

    measure: Measure
    call: Point
    failures: Failures
    with_steps: bool


class _Outcome(NamedTuple):
    """Rows of a point, and whether to keep them, so that it is not computed again."""

    rows: Rows
    final: bool


def _outcomes(
    tasks: Sequence[_Task],
    texts: Sequence[str],
    *,
    title: str,
    processes: int | None,
    address: str | None,
) -> Generator[tuple[int, _Outcome]]:
    """Yield the number and the outcome of each task as soon as it is finished."""
    with progress.steps(title, len(tasks)) as steps:
        if address is None and (processes == 1 or len(tasks) <= 1):
            for at, task in enumerate(tasks):
                steps(texts[at])
                try:
                    outcome = _outcome(task, steps)
                except ExperimentInterrupted as stopped:
                    yield at, _Outcome(stopped.frame.to_dicts(), final=False)
                    raise
                yield at, outcome
            return
        calls = [(task,) for task in tasks]
        with closing(parallel.as_finished(_outcome, calls, processes, address)) as finished:
            for at, outcome in finished:
                yield at, outcome
                steps(texts[at])


def _outcome(task: _Task, steps: progress.Steps | None = None) -> _Outcome:
    """Carry out a task; in a process beside others, without a line of progress."""
    options = {"steps": steps or _silent()} if task.with_steps else {}
    try:
        result = task.measure(**task.call, **options)
        if isinstance(result, Iterator):
            result = list(result)
    except task.failures as error:
        is_expected = task.failures is not Exception
        is_clear = is_expected or isinstance(error, UserError)
        reason = str(error) if is_clear else f"{type(error).__name__}: {error}"
        return _Outcome([{"reason": reason}], final=is_expected)
    if isinstance(result, pl.DataFrame):
        return _Outcome(result.to_dicts(), final=True)
    is_row = isinstance(result, Mapping) or not isinstance(result, Iterable)
    rows: list[Any] = [result] if is_row else list(result)
    if not all(isinstance(row, Mapping) for row in rows):
        raise UserError(
            f"{_name(task.measure)} returned {result!r}; return a row as a dict, several, or a "
            "frame"
        )
    return _Outcome(rows, final=True)


def _silent() -> progress.Steps:
    return progress.Steps("", 0, progress.Line(after_s=math.inf))


def _calls(
    measure: Measure,
    points: Sequence[Point],
    shared: Point,
    labels: Collection[str],
    with_steps: bool,
) -> list[dict[str, Any]]:
    """Return the arguments of each call; refuse those that the function does not take."""
    if wrong := [point for point in points if not isinstance(point, Mapping)]:
        raise UserError(f"a point is {wrong[0]!r}; give points as grid(seed=range(3)) makes them")
    calls = [
        {name: value for name, value in {**shared, **point}.items() if name not in labels}
        for point in points
    ]
    steps = {"steps": None} if with_steps else {}
    for call in calls:
        try:
            inspect.signature(measure).bind(**call, **steps)
        except ValueError:  # a function of C's, which does not say what it takes
            break
        except TypeError as error:
            given = ", ".join(call) or "nothing"
            raise UserError(f"{_name(measure)} is given {given}: {error}") from None
    return calls


def _name(measure: Measure) -> str:
    return getattr(measure, "__name__", type(measure).__name__)


def _text(point: Point) -> str:
    """A point in a line: ``resnet152, dynacomm, layers 40``."""
    return ", ".join(
        value.replace("_", " ") if isinstance(value, str) else f"{name.replace('_', ' ')} {value}"
        for name, value in point.items()
        if isinstance(value, str | int | float)
    )


def _with_schema(rows: Iterable[tuple[Point, Rows]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return a frame of rows and their points' values in the columns of a schema."""
    values = [
        [{**point, **row}.get(column) for column in schema]
        for point, of_point in rows
        for row in of_point
    ]
    try:
        return pl.DataFrame(values, schema=schema, orient="row")
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise UserError(f"rows do not fit the columns {schema}: {error}") from error


def _with_inferred_columns(
    rows: Sequence[tuple[Point, Rows]], points: Sequence[Point]
) -> pl.DataFrame:
    """Return a frame of rows without a schema; ``reason`` is its last column."""
    try:
        parts = [
            (
                _plain(point),
                pl.DataFrame([_plain(row) for row in of_point], infer_schema_length=None),
            )
            for point, of_point in rows
        ]
        frame = joined(parts, [name for point in points for name in point])
    except (TypeError, UnicodeError, pl.exceptions.PolarsError) as error:
        raise UserError(f"points or rows make no frame: {error}") from error
    if "reason" not in frame.columns:
        frame = frame.with_columns(pl.Series("reason", [None] * len(frame)))
    return frame.select(pl.exclude("reason"), pl.col("reason").cast(pl.String))


def _plain(row: Row) -> dict[str, Any]:
    """A row as polars takes it: arrays as lists, functions and classes by name."""

    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):
            return value.tolist()
        return value.__name__ if callable(value) and hasattr(value, "__name__") else value

    return {name: plain(value) for name, value in row.items()}


Part = tuple[Point, pl.DataFrame]
"""A point's values by name, and its rows."""


def joined(parts: Sequence[Part], parameters: Iterable[str] = ()) -> pl.DataFrame:
    """Return the rows of all points in their order, each with its point's values in front.

    Columns that a point lacks are null there. If the rows have a column of a parameter's name, it
    remains the only one of that name: the parameter's is left out where both say the same at all
    points, else called ``swept_NAME``.

    The `parameters` are columns even if there are no points.

    Raises PolarsError: a column holds values of no common type, such as numbers and structs.
    """
    names = list(dict.fromkeys([*parameters, *(name for point, _ in parts for name in point)]))
    columns = {*names, *(name for _, frame in parts for name in frame.columns)}
    titles = {name: _title(name, columns, parts) for name in names}
    frames = [pl.DataFrame(schema=dict.fromkeys(titles.values(), pl.Null))]
    for point, frame in parts:
        values = pl.DataFrame(
            [pl.Series(titles[name], [value] * len(frame)) for name, value in point.items()]
        )
        rest = frame.drop(values.columns, strict=False)
        frames.append(pl.concat([values, rest], how="horizontal"))
    return pl.concat(frames, how="diagonal_relaxed")


def _same(value: Any, other: Any) -> bool:
    """Whether two values are equal; NaN equals NaN."""
    if isinstance(value, float) and isinstance(other, float) and math.isnan(value):
        return math.isnan(other)
    return bool(value == other)


def _title(name: str, columns: set[str], parts: Sequence[Part]) -> str:
    """Return the name of a parameter's column, which must not hide another one."""
    if all(
        _same(value, point.get(name))
        for point, frame in parts
        if name in frame.columns
        for value in frame[name].to_list()
    ):
        return name
    title = f"swept_{name}"
    while title in columns:
        title = f"swept_{title}"
    return title
