"""Every packer by the same certificates."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.packing.instances import FAMILIES, deep_chain
from tests.oracles.packing import Buffer, least_peak, most_alive, overlaps
from workbench.memory import packing

ROUNDS = 4


def frame(buffers: list[Buffer]) -> pl.DataFrame:
    schema = {"lower": pl.Int64, "upper": pl.Int64, "size": pl.Int64}
    return pl.DataFrame(buffers, schema=schema, orient="row")


@st.composite
def buffers(draw: st.DrawFn, most: int, steps: int = 6, largest: int = 5) -> list[Buffer]:
    """Coarse grids: many begin, end and weigh the same; some have no bytes or no lifetime."""
    drawn = []
    for _ in range(draw(st.integers(0, most))):
        lower, length = draw(st.integers(-2, steps)), draw(st.integers(0, steps))
        drawn.append((lower, lower + length, draw(st.integers(0, largest))))
    return drawn


@pytest.mark.parametrize("planner", packing.PACKERS)
@given(drawn=buffers(most=6))
def test_packings_are_legal_and_no_better_than_the_optimum(
    planner: str, drawn: list[Buffer]
) -> None:
    table = frame(drawn)
    offsets = packing.pack(table, planner, rounds=ROUNDS)
    assert offsets.dtype == np.int64
    assert (offsets >= 0).all()
    assert overlaps(drawn, offsets.tolist()) == []
    packing.check(table, offsets)
    assert most_alive(drawn) == packing.bound(table) <= least_peak(drawn)
    assert least_peak(drawn) <= packing.peak(table, offsets)


@given(drawn=buffers(most=6))
def test_the_search_finds_the_optimum_of_a_few_buffers(drawn: list[Buffer]) -> None:
    table = frame(drawn)
    found = packing.peak(table, packing.pack(table, rounds=ROUNDS))
    assert found == least_peak(drawn)


@pytest.mark.parametrize("planner", packing.PACKERS)
@given(drawn=buffers(most=20, steps=8), alignment=st.integers(1, 9))
def test_offsets_are_aligned(planner: str, drawn: list[Buffer], alignment: int) -> None:
    offsets = packing.pack(frame(drawn), planner, rounds=1, alignment=alignment)
    assert not (offsets % alignment).any()
    assert overlaps(drawn, offsets.tolist()) == []


@pytest.mark.parametrize("planner", packing.PACKERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_packings_of_every_family_are_legal(planner: str, family: str) -> None:
    table = FAMILIES[family](60, np.random.default_rng(3))
    packing.check(table, packing.pack(table, planner, rounds=1))


@pytest.mark.parametrize("family", ["guillotine", "pinwheel"])
@pytest.mark.parametrize("seed", range(3))
def test_the_search_finds_packings_without_waste(family: str, seed: int) -> None:
    table = FAMILIES[family](40, np.random.default_rng(seed))
    assert packing.bound(table) == 2**20
    assert packing.peak(table, packing.pack(table, rounds=10)) == 2**20


def test_networks_are_packed_within_two_percent() -> None:
    table = deep_chain(300, np.random.default_rng(0))
    offsets = packing.pack(table, rounds=0)
    assert packing.peak(table, offsets) <= 1.02 * packing.bound(table)


@given(drawn=buffers(most=20, steps=8))
def test_more_rounds_are_never_worse(drawn: list[Buffer]) -> None:
    table = frame(drawn)
    peaks = [packing.peak(table, packing.pack(table, rounds=rounds)) for rounds in range(4)]
    assert peaks == sorted(peaks, reverse=True)


def test_the_search_improves_on_greedy_packings() -> None:
    table = FAMILIES["perturbed"](60, np.random.default_rng(0))
    peaks = [packing.peak(table, packing.pack(table, rounds=rounds)) for rounds in (0, 2, 6)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0]


def test_the_same_rounds_give_the_same_packing() -> None:
    table = FAMILIES["perturbed"](80, np.random.default_rng(1))
    once, again = (packing.pack(table, rounds=5).tolist() for _ in range(2))
    assert once == again


def test_the_search_leaves_room_below_a_long_buffer() -> None:
    # The two short buffers leave room below the long one only if it is not placed first.
    table = frame([(0, 2, 4), (1, 4, 2), (3, 5, 4), (0, 5, 3)])
    assert packing.peak(table, packing.pack(table)) == packing.bound(table) == 9


@pytest.mark.parametrize("planner", packing.PACKERS)
def test_buffers_without_bytes_or_lifetime_lie_at_zero(planner: str) -> None:
    assert packing.pack(frame([]), planner).tolist() == []
    assert packing.pack(frame([(0, 0, 5), (0, 3, 0)]), planner).tolist() == [0, 0]
    assert packing.peak(frame([(0, 0, 5), (0, 3, 0)]), [0, 0]) == 0
