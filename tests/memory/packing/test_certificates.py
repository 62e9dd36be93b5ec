"""The bound and the certificate against plain loops."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.packing.test_packers import buffers, frame
from tests.oracles.packing import Buffer, overlaps
from tests.refusals import refusals
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


def test_offsets_are_checked() -> None:
    table = frame([(0, 1, 4)])
    with pytest.raises(ValueError, match="row 0 has the offset -1"):
        packing.check(table, [-1])
    for wrong in ([0, 1], [0.5]):
        with pytest.raises(ValueError, match="give a whole number for each of 1 buffers"):
            packing.check(table, wrong)


GOOD = {"lower": [0, 1], "upper": [2, 3], "size": [4, 5]}


def changed(**columns: list[object]) -> pl.DataFrame:
    return pl.DataFrame({**GOOD, **columns})


test_refused = refusals(
    packing.pack,
    {"buffers": GOOD},
    {
        "buffers": {
            "row 1 has -5 bytes": [changed(size=[4, -5])],
            "row 1 ends at 0, before it begins at 1": [changed(upper=[2, 0])],
            "column size has 5.5 in row 1": [changed(size=[4.0, 5.5])],
            "column lower has nan in row 1": [changed(lower=[0.0, math.nan])],
            "column upper has None in row 1": [changed(upper=[2, None])],
            "column lower has None in row 0": [changed(lower=[None, None])],
            "column size has '4' in row 0": [changed(size=["4", "5"])],
            "column size has True in row 0": [changed(size=[True, False])],
            "bytes together": [changed(size=[2**60, 2**60])],
            "column upper has .* in row 1; .*at most": [changed(upper=[2, 2**62])],
            "no column lower, size; they need lower, upper, size": [{"upper": [1]}],
            "the buffers make no table": [{"lower": [0], "upper": [1, 2], "size": [4]}],
        },
        "planner": {"Did you mean 'best_fit'": ["bestfit"]},
        "time_limit_s": {"time_limit_s": [0, -1.0, math.nan, "1"]},
        "alignment": {"alignment": [0]},
        "rounds": {"rounds": [-1]},
    },
)


def test_whole_floats_and_dictionaries_are_fine() -> None:
    whole = {name: [float(value) for value in values] for name, values in GOOD.items()}
    assert packing.pack(whole, rounds=1).tolist() == packing.pack(GOOD, rounds=1).tolist()
