"""What every experiment's sweep does: rows in order, kept at Ctrl-C, failures as rows."""

from __future__ import annotations

import doctest
import importlib
import os
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.expectations import assert_tells_every_step
from workbench import experiments
from workbench.experiments import ExperimentInterrupted, Scaled, finished, grid, sweep
from workbench.experiments.scales import seeds_from
from workbench.parameters import SCALES
from workbench.runtime import Run
from workbench.runtime.progress import Steps
from workbench.utils.checks import UnknownNameError

SCHEMA = {"n": pl.Int64, "square": pl.Float64, "process": pl.Int64, "reason": pl.String}
POINTS = grid(n=[3, 1, 2])


def squared(*, n: int, folder: str = "", stop_at: int = 0, steps: Steps) -> dict[str, Any]:
    """A point that counts how often it is done, if there is a folder for it."""
    if n == stop_at:
        raise KeyboardInterrupt
    if folder:
        with (Path(folder) / str(n)).open("a") as done:
            done.write(".")
    return {"square": n**2 / 1, "process": os.getpid()}


def inverse(*, n: int, steps: Steps) -> list[dict[str, float]]:
    return [{"square": 1 / n}, {"square": 2 / n}]


def interrupted_within(*, n: int, steps: Steps) -> dict[str, float]:
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


def recording(
    folder: Path, processes: int | None = None
) -> AbstractContextManager[finished.Recording]:
    under_way = finished.Recording(folder, lambda _: {"code": "this"}, processes)
    return finished.recording(under_way)


def test_an_interrupted_simulation_gives_no_row() -> None:
    run = Run(1.0, "done", {}, None, 0, ())
    assert experiments.whole(run) is run
    with pytest.raises(KeyboardInterrupt):
        experiments.whole(replace(run, ended="interrupted"))


def test_progress_names_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_tells_every_step(lambda: sweep(squared, POINTS, SCHEMA, title="Squares"), monkeypatch)


def test_nothing_runs_beside_what_is_timed(tmp_path: Path) -> None:
    with recording(tmp_path, 2):
        frame = sweep(squared, POINTS, SCHEMA, title="Squares", processes=2, timed=True)
    assert set(frame["process"]) == {os.getpid()}


@pytest.mark.parametrize("remember", [False, True])
def test_what_is_remembered_is_done_once(remember: bool, tmp_path: Path) -> None:
    for _ in range(2):
        shared = {"folder": str(tmp_path)}
        sweep(squared, POINTS, SCHEMA, title="Squares", shared=shared, remember=remember)
    assert set(done(tmp_path).values()) == {1 if remember else 2}


def test_a_recording_takes_nothing_from_memory(tmp_path: Path) -> None:
    shared = {"folder": str(tmp_path)}
    sweep(squared, POINTS, SCHEMA, title="Squares", shared=shared, remember=True)
    with recording(tmp_path / "kept"):
        sweep(squared, POINTS, SCHEMA, title="Squares", shared=shared, processes=1, remember=True)
    assert {(tmp_path / str(n)).read_text() for n in (1, 2, 3)} == {".."}


def test_what_a_function_closes_over_cannot_hide_from_a_recording(tmp_path: Path) -> None:
    def squares_of(factor: int) -> pl.DataFrame:
        def measure(n: int, steps: object) -> dict[str, float]:
            return {"square": float(factor * n * n)}

        return sweep(measure, POINTS, SCHEMA, title="Squares")

    assert not squares_of(1).equals(squares_of(2))
    with recording(tmp_path), pytest.raises(AssertionError, match="closes over"):
        squares_of(1)


def test_numbers_are_kept_to_the_last_bit(tmp_path: Path) -> None:
    with recording(tmp_path):
        frames = [sweep(inverse, grid(n=[3, 7, 49]), SCHEMA, title="Inverse") for _ in range(2)]
    assert frames[0].equals(frames[1])


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
