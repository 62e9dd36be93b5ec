"""What every experiment's sweep does: rows in order, kept at Ctrl-C, failures as rows."""

from __future__ import annotations

import doctest
import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.expectations import assert_tells_every_step
from workbench import experiments
from workbench.experiments import ExperimentInterrupted, Scaled, grid, sweep
from workbench.experiments.scales import seeds_from
from workbench.parameters import SCALES
from workbench.runtime import Run
from workbench.utils.checks import UnknownNameError, UserError

SCHEMA = {"n": pl.Int64, "square": pl.Float64, "process": pl.Int64, "reason": pl.String}
POINTS = grid(n=[3, 1, 2])


def squared(*, n: int, counted: str = "", stop_at: int = 0) -> dict[str, Any]:
    """A point that counts how often it is done, if there is a folder for that."""
    if n == stop_at:
        raise KeyboardInterrupt
    if counted:
        with (Path(counted) / str(n)).open("a") as done:
            done.write(".")
    return {"square": n**2 / 1, "process": os.getpid()}


def inverse(*, n: int) -> list[dict[str, float]]:
    return [{"square": 1 / n}, {"square": 2 / n}]


def interrupted_within(*, n: int) -> dict[str, float]:
    if n == 1:
        raise ExperimentInterrupted(pl.DataFrame({"square": [0.5]}))
    return {"square": 0.0}


def done(folder: Path) -> dict[str, int]:
    return {path.name: len(path.read_text()) for path in folder.iterdir()}


@pytest.mark.parametrize("processes", [1, 2])
def test_rows_come_in_the_order_of_the_points(processes: int) -> None:
    frame = sweep(squared, POINTS, SCHEMA, title="Squares", processes=processes)
    assert frame.schema == SCHEMA
    assert frame.select("n", "square").rows() == [(3, 9.0), (1, 1.0), (2, 4.0)]
    assert (set(frame["process"]) == {os.getpid()}) is (processes == 1)


def test_the_last_axis_changes_first() -> None:
    assert [tuple(one.values()) for one in grid(a=[1, 2], b=list("xy"))] == [
        (1, "x"),
        (1, "y"),
        (2, "x"),
        (2, "y"),
    ]


def test_a_failed_point_is_a_row_with_its_reason() -> None:
    frame = sweep(inverse, grid(n=[0, 2]), SCHEMA, title="Inverse", failures=ZeroDivisionError)
    assert frame.drop("process").rows() == [
        (0, None, "division by zero"),
        (2, 0.5, None),
        (2, 1.0, None),
    ]


def test_other_errors_end_the_sweep() -> None:
    with pytest.raises(ZeroDivisionError):
        sweep(inverse, grid(n=[2, 0]), SCHEMA, title="Inverse", failures=ValueError)
    with pytest.raises(AssertionError, match="need a column 'reason'"):
        sweep(inverse, grid(n=[2]), {"square": pl.Float64}, title="Inverse", failures=ValueError)


@pytest.mark.parametrize(("stop_at", "rows"), [(3, 0), (1, 1), (2, 2)])
def test_ctrl_c_keeps_finished_rows_and_what_follows_from_them(stop_at: int, rows: int) -> None:
    def doubled(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(double=2 * pl.col("square"))

    with pytest.raises(ExperimentInterrupted) as stopped:
        sweep(squared, POINTS, SCHEMA, title="Squares", shared={"stop_at": stop_at}, then=doubled)
    kept, whole = stopped.value.frame, sweep(squared, POINTS, SCHEMA, title="Squares", then=doubled)
    assert kept.equals(whole.head(rows))
    assert kept.schema == whole.schema


def test_what_a_point_has_finished_of_itself_is_kept() -> None:
    with pytest.raises(ExperimentInterrupted, match="2 finished rows") as stopped:
        sweep(interrupted_within, POINTS, SCHEMA, title="Parts")
    assert stopped.value.frame.select("n", "square").rows() == [(3, 0.0), (1, 0.5)]


def test_an_interrupted_simulation_gives_no_row() -> None:
    run = Run(1.0, "done", {}, None, 0, ())
    assert experiments.whole(run) is run
    with pytest.raises(KeyboardInterrupt):
        experiments.whole(replace(run, ended="interrupted"))


def test_progress_names_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_tells_every_step(lambda: sweep(squared, POINTS, SCHEMA, title="Squares"), monkeypatch)


def test_nothing_runs_beside_what_is_timed() -> None:
    frame = sweep(squared, POINTS, SCHEMA, title="Squares", processes=2, timed=True)
    assert set(frame["process"]) == {os.getpid()}


def test_sweeps_with_a_cache_in_common_do_a_point_once(tmp_path: Path) -> None:
    cache: dict[str, Any] = {}
    shared = {"counted": str(tmp_path)}
    for processes in (2, 1):
        frame = sweep(squared, POINTS, SCHEMA, shared=shared, cache=cache, processes=processes)
        assert frame["square"].to_list() == [9.0, 1.0, 4.0]
    assert set(done(tmp_path).values()) == {1}


def test_a_folder_takes_nothing_from_a_cache(tmp_path: Path) -> None:
    cache: dict[str, Any] = {}
    (counted := tmp_path / "counted").mkdir()
    shared = {"counted": str(counted)}
    sweep(squared, POINTS, SCHEMA, shared=shared, cache=cache)
    sweep(squared, POINTS, SCHEMA, shared=shared, cache=cache, folder=tmp_path / "kept")
    assert set(done(counted).values()) == {2}


def test_labels_are_columns_and_no_arguments() -> None:
    points = [{"n": 2, "name": "two"}, {"n": 3, "name": "three"}]
    frame = sweep(inverse, points, labels=("name",))
    assert frame["name"].to_list() == ["two", "two", "three", "three"]
    with pytest.raises(UserError, match="unexpected keyword argument 'name'"):
        sweep(inverse, points)


def test_what_a_function_closes_over_cannot_be_kept(tmp_path: Path) -> None:
    def squares_of(factor: int, folder: Path | None = None) -> pl.DataFrame:
        def measure(n: int) -> dict[str, float]:
            return {"square": float(factor * n * n)}

        return sweep(measure, POINTS, SCHEMA, title="Squares", folder=folder)

    assert not squares_of(1).equals(squares_of(2))
    with pytest.raises(UserError, match="cannot be told from others of its kind"):
        squares_of(1, tmp_path)


def test_numbers_are_kept_to_the_last_bit(tmp_path: Path) -> None:
    points = grid(n=[3, 7, 49])
    one, two = (sweep(inverse, points, SCHEMA, folder=tmp_path) for _ in range(2))
    assert one.equals(two)


def test_a_size_by_scale() -> None:
    size = Scaled(smoke=1, default=2, paper=3)
    assert {scale: size.at(scale) for scale in SCALES} == size._asdict()
    with pytest.raises(UnknownNameError, match="smoke, default, paper"):
        size.at("full")


def test_seeds_count_from_the_first() -> None:
    assert list(seeds_from(4, 2, 3)) == [4, 5]
    assert list(seeds_from(4, None, 3)) == [4, 5, 6]


@pytest.mark.parametrize("module", ["workbench.experiments.scales", "workbench.experiments.sweep"])
def test_examples(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_ctrl_c_elsewhere_is_kept_too() -> None:
    def rows() -> pl.DataFrame:
        return pl.DataFrame({"n": [1]})

    with (
        pytest.raises(ExperimentInterrupted, match="1 finished row is") as stopped,
        experiments.keeping(rows),
    ):
        raise KeyboardInterrupt
    assert stopped.value.frame["n"].to_list() == [1]
