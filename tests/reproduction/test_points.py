"""Finished points are found again by function and arguments, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from workbench.reproduction.sweep import grid, sweep
from workbench.utils.checks import UserError

calls = list[int]()


def third(n: int) -> list[dict[str, Any]]:
    calls.append(n)
    return [{"third": n / 3, "float32": np.float32(n), "parts": np.arange(n)}, {"third": -n / 3}]


def failing(n: int) -> dict[str, int]:
    calls.append(n)
    if n == 2:
        raise KeyError("two")
    return {"x": n}


def of_path(n: int) -> dict[str, object]:
    return {"x": Path(str(n))}


def of_any(value: object) -> dict[str, str]:
    return {"text": repr(value)}


class Adding:
    def to(self, n: int) -> dict[str, int]:
        return {"x": n}


def adding(number: int) -> Callable[[int], dict[str, int]]:
    def to(n: int) -> dict[str, int]:
        return {"x": n + number}

    return to


@pytest.fixture(autouse=True)
def none_called() -> None:
    calls.clear()


def test_rows_are_kept_to_the_last_bit_and_computed_once(tmp_path: Path) -> None:
    points = grid(n=[1, 7, 49])
    computed, kept = (sweep(third, points, folder=tmp_path) for _ in range(2))
    assert kept.equals(computed)
    assert kept.equals(sweep(third, points))
    assert calls == [1, 7, 49] * 2


def test_a_dict_keeps_points_in_a_process_and_a_folder_does_not_read_it(tmp_path: Path) -> None:
    cache: dict[str, Any] = {}
    for processes in (1, 2):
        frame = sweep(failing, grid(n=[1, 3]), cache=cache, processes=processes)
        assert frame["x"].to_list() == [1, 3]
    assert calls == [1, 3]
    sweep(failing, grid(n=[1, 3]), cache=cache, folder=tmp_path)
    assert calls == [1, 3] * 2


def test_unexpected_failures_are_computed_again(tmp_path: Path) -> None:
    for expected, called in ((None, [1, 2, 2]), (KeyError, [1, 2])):
        calls.clear()
        folder = tmp_path / str(expected)
        for _ in range(2):
            frame = sweep(failing, grid(n=[1, 2]), folder=folder, failures=expected)
            assert frame["x"].to_list() == [1, None]
        assert calls == called


@pytest.mark.parametrize("where", ["folder", "cache"])
def test_an_edit_of_the_function_is_seen_and_of_what_it_calls_is_not(
    where: str, tmp_path: Path
) -> None:
    keep: dict[str, Any] = {where: tmp_path / "kept" if where == "folder" else {}}

    def values(factor: str, text: str) -> list[int]:
        (file := tmp_path / "mine.py").write_text(
            f"def helped(n):\n    return {factor} * n\n\n# {text}\n"
            f"def mine(n):\n    return {{'x': helped(n){text}}}\n"
        )
        names: dict[str, Any] = {"__name__": "mine"}
        exec(compile(file.read_text(), str(file), "exec"), names)
        return sweep(names["mine"], grid(n=[1, 2]), **keep)["x"].to_list()

    assert values("5", "") == [5, 10]
    assert values("5", " + 1") == [6, 11]
    assert values("777", " + 1") == [6, 11]
    assert values("777", "") == [5, 10]  # the first edit lost nothing


def test_arguments_are_told_apart_by_their_text(tmp_path: Path) -> None:
    values: list[Any] = [1, 1.0, "1", True, None, (1, 2), [1, 2], {"a": [1]}, {1: (2,)}]
    frame = sweep(of_any, grid(value=values), pl.Schema({"text": pl.String}), folder=tmp_path)
    assert frame["text"].to_list() == list(map(repr, values))
    assert len(list(tmp_path.iterdir())) == len(values)


@pytest.mark.parametrize("value", [np.arange(3), {"a": object()}, object(), [object()]])
def test_arguments_that_text_does_not_tell_apart_are_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="kept points are found by their arguments"):
        sweep(of_any, [{"value": value}], folder=tmp_path)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda n: {"x": n}, "<lambda> cannot be told"),
        (partial(failing), "cannot be told from others of its kind"),
        (Adding().to, "Adding.to cannot be told from others of its kind"),
        (adding(2), "to cannot be told from others of its kind"),
        (of_path, r"a row holds PosixPath\('1'\), which cannot be kept"),
    ],
)
def test_functions_and_rows_that_cannot_be_kept(
    function: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        sweep(function, grid(n=[1, 2]), folder=tmp_path)


def test_a_changed_default_computes_its_points_again(tmp_path: Path) -> None:
    def rows(factor: int) -> list[int]:
        def scaled(n: int, factor: int = factor) -> dict[str, int]:
            return {"y": n * factor}

        return sweep(scaled, grid(n=[1, 2]), folder=tmp_path)["y"].to_list()

    assert (rows(1), rows(2), rows(1)) == ([1, 2], [2, 4], [1, 2])


def test_an_argument_that_is_not_utf8_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"points or rows make no frame: .*surrogates"):
        sweep(of_any, grid(value=["a\udc80"]), folder=tmp_path)
