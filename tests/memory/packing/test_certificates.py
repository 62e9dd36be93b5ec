"""The bound and the certificate against plain loops."""

from __future__ import annotations

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
    with pytest.raises(ValueError, match="row 0 lies at -1, below 0"):
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
            "row 1 has 5 bytes and ends at 0, having begun at 1": [changed(upper=[2, 0])],
            "no column size of whole numbers": [
                changed(size=[4.0, 5.5]),
                changed(size=["4", "5"]),
                changed(size=[True, False]),
                changed(size=[2, None]),
            ],
            "bytes together": [changed(size=[2**60, 2**60])],
            "no column lower of whole numbers; give lower, upper, size": [{"upper": [1]}],
        },
        "planner": {"Did you mean 'best_fit'": ["bestfit"]},
        "alignment": {"alignment": [0]},
        "rounds": {"rounds": [-1]},
    },
)
