"""The bound and the certificate against plain loops."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.packing.test_packers import buffers, frame
from tests.oracles.packing import Buffer, most_alive, overlaps
from workbench.memory import packing


@given(drawn=buffers(most=8), data=st.data())
def test_check_finds_what_the_oracle_finds(drawn: list[Buffer], data: st.DataObject) -> None:
    many = st.lists(st.integers(0, 12), min_size=len(drawn), max_size=len(drawn))
    offsets = data.draw(many)
    if overlaps(drawn, offsets):
        with pytest.raises(ValueError, match="overlap"):
            packing.check(frame(drawn), np.array(offsets, int))
    else:
        packing.check(frame(drawn), np.array(offsets, int))


@given(drawn=buffers(most=12))
def test_bound(drawn: list[Buffer]) -> None:
    assert packing.bound(frame(drawn)) == most_alive(drawn)


def test_offsets_are_checked() -> None:
    table = frame([(0, 1, 4)])
    with pytest.raises(ValueError, match="row 0 has the offset -1"):
        packing.check(table, [-1])
    for wrong in ([0, 1], [0.5]):
        with pytest.raises(ValueError, match="give a whole number for each of 1 buffers"):
            packing.check(table, wrong)


GOOD = {"lower": [0, 1], "upper": [2, 3], "size": [4, 5]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"size": [4, -5]}, r"row 1 has -5 bytes"),
        ({"upper": [2, 0]}, r"row 1 ends at 0, before it begins at 1"),
        ({"size": [4.0, 5.5]}, r"column size has 5.5 in row 1"),
        ({"lower": [0.0, float("nan")]}, r"column lower has nan in row 1"),
        ({"upper": [2, None]}, r"column upper has no value in row 1"),
        ({"lower": [None, None]}, r"column lower has no value in row 0"),
        ({"size": ["4", "5"]}, r"column size holds String"),
        ({"size": [True, False]}, r"column size holds Boolean"),
        ({"size": [2**60, 2**60]}, r"bytes together"),
        ({"upper": [2, 2**62]}, r"column upper has .* in row 1; the farthest"),
    ],
)
def test_bad_buffers_are_refused(changed: dict[str, list[object]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        packing.pack(pl.DataFrame({**GOOD, **changed}))


def test_missing_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="no column lower, size; they need lower, upper, size"):
        packing.pack(pl.DataFrame({"upper": [1]}))


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), "1"])
def test_bad_time_limits_are_refused(limit: float) -> None:
    with pytest.raises(ValueError, match="time_limit_s"):
        packing.pack(GOOD, time_limit_s=limit)


def test_other_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="Did you mean 'best_fit'"):
        packing.pack(GOOD, "bestfit")
    with pytest.raises(ValueError, match="alignment"):
        packing.pack(GOOD, alignment=0)
    with pytest.raises(ValueError, match="rounds"):
        packing.pack(GOOD, rounds=-1)
    with pytest.raises(ValueError, match="seed"):
        packing.pack(GOOD, seed=-1)


def test_whole_floats_and_dictionaries_are_fine() -> None:
    whole = {name: [float(value) for value in values] for name, values in GOOD.items()}
    assert packing.pack(whole, rounds=1).tolist() == packing.pack(GOOD, rounds=1).tolist()
