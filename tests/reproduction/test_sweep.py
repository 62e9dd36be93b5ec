"""A sweep: rows in order, failures as rows, finished rows at Ctrl-C, columns that hide nothing."""

from __future__ import annotations

import doctest
import importlib
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbclient import NotebookClient

from tests.expectations import assert_tells_every_step
from tests.refusals import refusals
from workbench.reproduction.parameters import SCALES
from workbench.reproduction.scales import Scaled, seeds_from
from workbench.reproduction.sweep import ExperimentInterrupted, grid, joined, sweep, whole
from workbench.runtime import Run
from workbench.runtime.progress import Steps
from workbench.utils.checks import UnknownNameError, UserError

SCHEMA = {"n": pl.Int64, "square": pl.Float64, "process": pl.Int64, "reason": pl.String}
POINTS = grid(n=[3, 1, 2])
GRID = grid(bandwidth_mbps=[10, 100], seed=range(3))


def squared(*, n: int, stop_at: int = 0) -> dict[str, Any]:
    if n == stop_at:
        raise KeyboardInterrupt
    return {"square": n**2 / 1, "process": os.getpid()}


def inverse(*, n: int) -> list[dict[str, float]]:
    return [{"square": 1 / n}, {"square": 2 / n}]


def interrupted_within(*, n: int) -> dict[str, float]:
    if n == 1:
        raise ExperimentInterrupted(pl.DataFrame({"square": [0.5]}))
    return {"square": 0.0}


def trained(bandwidth_mbps: float, seed: int) -> dict[str, Any]:
    if seed == 2:
        raise KeyError("two")
    return {"top1": np.float32(seed / 4), "seconds": 100 / bandwidth_mbps, "parts": np.arange(seed)}


def rows_of(seed: int, steps: Steps) -> list[dict[str, int]]:
    steps.within("half")
    return [{"seed": seed + 1, "at": at} for at in range(seed)]


def steps_of(steps: int) -> pl.DataFrame:
    return pl.DataFrame({"n": [steps]})


def refused(seed: int) -> dict[str, int]:
    raise UserError(f"seed {seed}: give another")


def number(seed: int) -> int:
    return seed


def locking(seed: int, lock: Any) -> dict[str, int]:
    return {"x": seed}


def ended(seed: int) -> dict[str, int]:
    os._exit(3)


def unlike(seed: int) -> dict[str, Any]:
    return {"x": seed if seed else [seed]}


def text(seed: int) -> dict[str, str]:
    return {"y": f"number {seed}"}


def fractions(seed: int) -> Iterator[dict[str, float]]:
    yield {"y": 1 / seed}


def same(x: float) -> dict[str, float]:
    return {"x": x}


def of_reason(reason: int) -> dict[str, int]:
    return {"x": reason}


class TwoPartError(Exception):
    """It cannot be unpickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def unpicklable_error(seed: int) -> None:
    raise TwoPartError("one", "two")


def test_the_last_axis_changes_first() -> None:
    assert [tuple(point.values()) for point in grid(a=[1, 2], b=["x", "y"])] == [
        (1, "x"),
        (1, "y"),
        (2, "x"),
        (2, "y"),
    ]


@pytest.mark.parametrize("wrong", [5, "lenet5", b"ab", None])
def test_a_single_value_is_no_axis(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"give its values, as in model=\["):
        grid(model=wrong)


def test_rows_come_in_the_order_of_the_points_and_the_columns_of_the_schema() -> None:
    frame = sweep(squared, POINTS, SCHEMA, title="Squares")
    assert frame.schema == SCHEMA
    assert frame.rows() == [(n, n**2, os.getpid(), None) for n in (3, 1, 2)]


@pytest.mark.parametrize("processes", [1, 2])
def test_without_a_schema_a_column_for_each_value_and_a_row_for_each_failure(
    processes: int,
) -> None:
    frame = sweep(trained, GRID, processes=processes)
    assert dict(frame.schema) == {
        "bandwidth_mbps": pl.Int64,
        "seed": pl.Int64,
        "top1": pl.Float64,
        "seconds": pl.Float64,
        "parts": pl.List(pl.Int64),
        "reason": pl.String,
    }
    assert frame.rows() == [
        (mbps, seed, seed / 4, 100 / mbps, list(range(seed)), None)
        if seed < 2
        else (mbps, seed, None, None, None, "KeyError: 'two'")
        for mbps in (10, 100)
        for seed in range(3)
    ]


def test_rows_may_be_several_or_a_frame_and_their_columns_hide_no_parameter() -> None:
    frame = sweep(rows_of, grid(seed=[2, 1, 0]), with_steps=True)
    assert frame.columns == ["swept_seed", "seed", "at", "reason"]
    assert frame.drop("reason").rows() == [(2, 3, 0), (2, 3, 1), (1, 2, 0)]
    assert sweep(steps_of, grid(steps=[5, 6])).rows() == [(5, 5, None), (6, 6, None)]
    assert sweep(steps_of, []).schema == {"reason": pl.String}


def test_labels_are_columns_and_no_arguments() -> None:
    points = [{"n": 2, "name": "two"}, {"n": 3, "name": "three"}]
    frame = sweep(inverse, points, labels=("name",))
    assert frame["name"].to_list() == ["two", "two", "three", "three"]
    with pytest.raises(UserError, match="unexpected keyword argument 'name'"):
        sweep(inverse, points)


def test_expected_failures_are_rows_and_others_end_the_sweep() -> None:
    frame = sweep(inverse, grid(n=[0, 2]), SCHEMA, failures=ZeroDivisionError)
    assert frame.drop("process").rows() == [
        (0, None, "division by zero"),
        (2, 0.5, None),
        (2, 1.0, None),
    ]
    with pytest.raises(ZeroDivisionError):
        sweep(inverse, grid(n=[2, 0]), SCHEMA, failures=ValueError)
    with pytest.raises(ZeroDivisionError):
        sweep(inverse, grid(n=[2, 0]), SCHEMA)
    with pytest.raises(AssertionError, match="need a column 'reason'"):
        sweep(inverse, grid(n=[2]), {"square": pl.Float64}, failures=ValueError)
    assert sweep(refused, grid(seed=[1]))["reason"].to_list() == ["seed 1: give another"]


@pytest.mark.parametrize(("stop_at", "rows"), [(3, 0), (1, 1), (2, 2)])
def test_ctrl_c_keeps_finished_rows_and_what_follows_from_them(stop_at: int, rows: int) -> None:
    def doubled(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(double=2 * pl.col("square"))

    with pytest.raises(ExperimentInterrupted) as stopped:
        sweep(squared, POINTS, SCHEMA, shared={"stop_at": stop_at}, then=doubled)
    frame, whole = stopped.value.frame, sweep(squared, POINTS, SCHEMA, then=doubled)
    assert frame.equals(whole.head(rows))
    assert frame.schema == whole.schema


def test_rows_that_an_interrupted_point_has_finished_are_kept() -> None:
    with pytest.raises(ExperimentInterrupted, match="2 finished rows") as stopped:
        sweep(interrupted_within, POINTS, SCHEMA, title="Parts")
    assert stopped.value.frame.select("n", "square").rows() == [(3, 0.0), (1, 0.5)]


def test_an_interrupted_simulation_gives_no_row() -> None:
    run = Run(1.0, "done", {}, {}, None, 0, ())
    assert whole(run) is run
    with pytest.raises(KeyboardInterrupt):
        whole(replace(run, ended="interrupted"))


def test_progress_names_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_tells_every_step(lambda: sweep(squared, POINTS, SCHEMA, title="Squares"), monkeypatch)


test_refused = refusals(
    partial(sweep, trained),
    {"points": GRID},
    {
        "points": {
            "missing a required argument: 'bandwidth_mbps'": [grid(seed=[1])],
            "unexpected keyword argument 'x'": [grid(seed=[1], bandwidth_mbps=[1], x=[1])],
            "give points as grid": [{"seed": 1}, [1], "ab"],
        },
        "processes": {"whole number of at least 1": [0, -1, 1.5, "2", True]},
        "shared": {"unexpected keyword argument 'x'": [{"x": 1}]},
    },
)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("Title", {}, "'Title' is not a function; as in sweep"),
        (number, {}, "number returned 1; return a row as a dict"),
        (
            locking,
            {"processes": 2, "shared": {"lock": threading.Lock()}},
            "cannot be sent between processes: .*pickle.*lock",
        ),
        (ended, {"processes": 2}, "a process died: out of memory, or"),
        (unlike, {}, "points or rows make no frame: "),
        (text, {"schema": {"y": pl.Float64}}, "rows do not fit the columns"),
        (
            unpicklable_error,
            {"schema": {"y": pl.Float64}, "processes": 2},
            "cannot be sent back from another process: .*Raise errors that pickle",
        ),
        (number, {"address": "127.0.0.1:1"}, "is not installed|no Ray cluster|uses another Ray"),
    ],
)
def test_refused_in_words(function: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        sweep(function, grid(seed=[1, 0, 2]), **options)


def test_generator_that_fails_is_a_row() -> None:
    frame = sweep(fractions, grid(seed=[1, 0, 2]))
    assert frame["y"].to_list() == [1.0, None, 0.5]
    assert frame["reason"].to_list() == [None, "ZeroDivisionError: division by zero", None]


def test_nan_of_a_point_and_of_its_row_are_the_same() -> None:
    assert sweep(same, [{"x": math.nan}, {"x": 1.0}]).columns == ["x", "reason"]


def test_no_value_of_a_point_is_called_reason() -> None:
    with pytest.raises(UserError, match="'reason', as is why one failed: rename it"):
        sweep(of_reason, grid(reason=[1, 2]))


CELLS = [
    "import os\nfrom workbench.reproduction.sweep import grid, sweep\nBASE = 10",
    "class Twice:\n    def of(self, x):\n        return BASE + 2 * x",
    "def mine(x):\n    return {'y': Twice().of(x), 'process': os.getpid()}",
    "a = sweep(mine, grid(x=[1, 2, 3]), processes=2, folder='kept')\n"
    "b = sweep(mine, grid(x=[1, 2, 3]), folder='kept')\n"
    "print([a['y'].to_list(), os.getpid() in a['process'].to_list(), a.equals(b)])",
    "def mine(x):\n    return {'y': 3 * x}",
    "print(sweep(mine, grid(x=[1, 2, 3]), folder='kept')['y'].to_list())",
]


def test_functions_and_classes_of_cells_work_in_other_processes_and_folders(tmp_path: Path) -> None:
    v4: Any = nbformat.v4
    book = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in CELLS])
    done = NotebookClient(book, resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = [
        "".join(out.get("text", "") for out in cell["outputs"] if out.get("name") == "stdout")
        for cell in done["cells"]
    ]
    assert texts[3] == "[[12, 14, 16], False, True]\n"
    assert texts[5] == "[3, 6, 9]\n"


class TestJoined:
    """Frames of points under each other: no row lost, no parameter hidden by a column."""

    @given(
        st.lists(
            st.tuples(
                st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.integers(0, 2)}),
                st.lists(
                    st.dictionaries(st.sampled_from("axy"), st.integers(0, 2), min_size=1),
                    max_size=3,
                ),
            ),
            max_size=4,
        )
    )
    def test_every_row_comes_with_its_point(
        self, parts: list[tuple[dict[str, int], list[dict[str, int]]]]
    ) -> None:
        frame = joined([(point, pl.DataFrame(rows)) for point, rows in parts], "ab")
        # In a point's frame a column of any row is one of all.
        pairs = [
            (point, {name: row.get(name) for name in {name for other in rows for name in other}})
            for point, rows in parts
            for row in rows
        ]
        same = all(row.get("a", point["a"]) == point["a"] for point, row in pairs)
        title = "a" if same else "swept_a"
        expected = [{**row, title: point["a"], "b": point["b"]} for point, row in pairs]
        assert [
            {name: value for name, value in row.items() if name in wanted or value is not None}
            for row, wanted in zip(frame.to_dicts(), expected, strict=True)
        ] == expected
        assert frame.columns[:2] == [title, "b"]

    def test_a_parameter_is_never_called_like_another_column(self) -> None:
        parts = [({"a": 1, "swept_a": 2}, pl.DataFrame({"a": [3], "swept_swept_a": [4]}))]
        assert joined(parts).to_dicts() == [
            {"swept_swept_swept_a": 1, "swept_a": 2, "a": 3, "swept_swept_a": 4}
        ]


def test_sizes_and_seeds_by_scale() -> None:
    size = Scaled(smoke=1, default=2, paper=3)
    assert [size.at(scale) for scale in SCALES] == [1, 2, 3]
    with pytest.raises(UnknownNameError, match="smoke, default, paper"):
        size.at("full")
    assert list(seeds_from(4, 2, 3)) == [4, 5]
    assert list(seeds_from(4, None, 3)) == [4, 5, 6]


@pytest.mark.parametrize("module", ["recordings", "scales", "sweep"])
def test_examples(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"workbench.reproduction.{module}")).failed == 0
