"""Transfers that share an interface, against small steps of time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import comparison as oracle
from workbench.comparison.sharing import Transfer, ends_s, fair_bps

SECONDS = st.sampled_from([0.0, 0.25, 1.0])
TRANSFERS = st.lists(
    st.builds(Transfer, SECONDS, SECONDS, st.sampled_from([1.0, 2.0, 5.0])), min_size=1, max_size=3
)
RATES = st.sampled_from([0.5, 1.0, 3.0])


@given(links=st.lists(st.tuples(TRANSFERS, RATES), min_size=1, max_size=4), shared=RATES)
@settings(max_examples=25, deadline=None)
def test_ends_are_those_of_small_steps(
    links: list[tuple[list[Transfer], float]], shared: float
) -> None:
    transfers, most = [one for one, _ in links], [bps for _, bps in links]
    expected, step_s = oracle.ends_s(transfers, most, shared, steps=2000)
    late_s = 2 * sum(map(len, transfers)) * step_s
    for found, slow in zip(ends_s(transfers, most, shared), expected, strict=True):
        assert found == pytest.approx(slow, abs=late_s)


def test_shares_by_hand() -> None:
    assert fair_bps([1, 10, 10], 9) == [1, 4, 4]
    assert fair_bps([1, 2], 9) == [1, 2]
    assert fair_bps([math.inf, 1], math.inf) == [math.inf, 1]
    assert fair_bps([math.inf, 1], 4) == [3, 1]
    assert fair_bps([], 1) == []


def test_transfers_without_bits_or_limits_take_their_overhead() -> None:
    links = [[Transfer(1, 0.5, 0), Transfer(0, 0.5, 9)], [Transfer(0, 0, 9)]]
    assert ends_s(links, [1.0, math.inf], math.inf) == [[1.5, 11.0], [0.0]]
