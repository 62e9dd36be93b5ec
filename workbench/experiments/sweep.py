"""A sweep: a function at every point of a grid, its rows in one frame.

::

    def trained(bandwidth_mbps, seed):
        ...
        return {"top1": ..., "seconds": ...}

    sweep(trained, grid(bandwidth_mbps=[10, 100], seed=range(3)), processes=2, folder="trial")
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from workbench.experiments.computed import Failures, Measure, Point, computed, keeping, without
from workbench.experiments.joined import joined
from workbench.experiments.kept_points import Rows
from workbench.store.folder import writable
from workbench.utils.checks import UserError, check_whole
from workbench.utils.files import expanded


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
    timed: bool = False,
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
    labels, processes, address, cache, timed, with_steps
        As for `computed`.
    folder
        Keep each finished point here, and compute none again that is here already, unless the
        source of the function has changed. A change elsewhere, such as in what it calls, is not
        seen: give another folder then.
    failures
        Errors that make a point a row with the error in the column ``reason``; by default, without
        a schema, any. Points that failed so by default are not kept. Other errors end the sweep.
    then
        Adds columns that follow from several rows; also to the rows of an interrupted sweep.

    Raises
    ------
    UserError
        Points that the function does not take; a folder that cannot be written; or a function or
        arguments by which finished points could not be found again.
    ExperimentInterrupted
        At Ctrl-C, with the rows of the points that were finished.
    """
    if not callable(measure):
        raise UserError(f"{measure!r} is not a function; as in sweep(train, grid(seed=range(3)))")
    name = _name(measure)
    expected = failures is not None or schema is not None
    caught = failures or () if expected else Exception
    if caught and schema is not None and "reason" not in schema:
        raise AssertionError(f"{name}: failures need a column 'reason' in the schema")
    everywhere, asked = shared or {}, list(points)
    _check_calls(measure, asked, everywhere, labels, with_steps)
    if processes is not None:
        check_whole("processes", processes, 1)
    finished_rows: dict[int, Rows] = {}

    def frame() -> pl.DataFrame:
        if schema is None:
            return then(_free(asked, finished_rows))
        rows = [
            [{**everywhere, **asked[at], **row}.get(name) for name in schema]
            for at in sorted(finished_rows)
            for row in finished_rows[at]
        ]
        return then(pl.DataFrame(rows, schema=schema, orient="row"))

    if folder is not None:
        writable(expanded(folder))
    with keeping(frame):
        finished_rows.update(
            computed(
                measure,
                asked,
                title=name.replace("_", " ") if title is None else title,
                shared=everywhere,
                labels=labels,
                processes=processes,
                address=address,
                folder=folder,
                cache=cache,
                timed=timed,
                with_steps=with_steps,
                failures=caught,
                unexpected=not expected,
            )
        )
    return frame()


def _check_calls(
    measure: Measure,
    points: Sequence[Point],
    shared: Point,
    labels: Collection[str],
    with_steps: bool,
) -> None:
    """Refuse arguments that the function does not take."""
    if wrong := [point for point in points if not isinstance(point, Mapping)]:
        raise UserError(f"a point is {wrong[0]!r}; give points as grid(seed=range(3)) makes them")
    try:
        signature = inspect.signature(measure)
    except ValueError:  # a function of C's, which does not say what it takes
        return
    steps = {"steps": None} if with_steps else {}
    for names in dict.fromkeys(tuple(point) for point in points):
        try:
            signature.bind(**steps, **without({**shared, **dict.fromkeys(names)}, labels))
        except TypeError as error:
            given = ", ".join([*shared, *names]) or "nothing"
            raise UserError(f"{_name(measure)}{signature} is given {given}: {error}") from None


def _name(measure: Measure) -> str:
    return getattr(measure, "__name__", type(measure).__name__)


def _free(points: Sequence[Point], finished_rows: Mapping[int, Rows]) -> pl.DataFrame:
    """The frame of rows without a schema."""
    parts = []
    for at in sorted(finished_rows):
        rows = [{name: _plain(value) for name, value in row.items()} for row in finished_rows[at]]
        point = {name: _plain(value) for name, value in points[at].items()}
        parts.append((point, pl.DataFrame(rows, infer_schema_length=None)))
    try:
        frame = joined(parts, dict.fromkeys(name for point in points for name in point))
    except pl.exceptions.PolarsError as error:
        raise UserError(f"points or rows have values of no common type: {error}") from error
    if "reason" not in frame.columns:
        frame = frame.with_columns(pl.Series("reason", [None] * len(frame)))
    return frame.select(pl.exclude("reason"), pl.col("reason").cast(pl.String))


def _plain(value: Any) -> Any:
    """A value as polars takes it: arrays as lists, functions and classes by name."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return value.__name__ if callable(value) and hasattr(value, "__name__") else value
