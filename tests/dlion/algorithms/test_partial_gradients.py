"""What Gaia, Max N, Ako and Top-k send over many gradients: nothing lost, nothing twice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.dlion.gradients import VALUES, gradient, links
from workbench.dlion.algorithms.ako import FIRST, Blocks, blocks
from workbench.dlion.algorithms.gaia import significant
from workbench.dlion.algorithms.max_n import MaxN, PerLinkAddedUp, Ranks, max_n
from workbench.dlion.algorithms.top_k import TopK
from workbench.dlion.gradient import Accumulated, Links
from workbench.dlion.part import Part

Rows = list[list[float]]
Values = NDArray[np.float32]
ROWS = st.integers(1, 30).flatmap(
    lambda size: st.lists(st.lists(VALUES, min_size=size, max_size=size), min_size=1, max_size=12)
)


def dense(part: Part, size: int) -> Values:
    found = np.zeros(size, np.float32)
    part.add_to(found, 1.0)
    return found


def played(
    hook: Any, rows: Sequence[Sequence[float]], known: Links, **how: Any
) -> Iterator[tuple[Values, Values]]:
    """What waits in each iteration and what is sent of it; nothing is lost, nothing sent twice."""
    size = len(rows[0])
    total, sent = np.zeros(size, np.float32), np.zeros(size, np.float32)
    for row in rows:
        parts = hook(gradient(row, **how), known)
        assert len({id(part) for part in parts.values()}) == 1  # the same for all
        total = total + np.array(row, np.float32)
        waiting, found = total - sent, dense(parts[1], size)
        sent = sent + found
        assert np.array_equal(sent + hook.left.values, total)
        yield waiting, found


class TestGaia:
    @given(ROWS, st.sampled_from([0.0, 1.0, 50.0, 1000.0]))
    def test_what_is_significant_is_sent(self, rows: Rows, weight: float) -> None:
        hook, weights = Accumulated(significant), np.full(len(rows[0]), weight, np.float32)
        for waiting, found in played(hook, rows, links(1, 2), step=0.1, weights=weights):
            expected = [abs(float(one) * 0.1) > 0.01 * weight + 1e-12 for one in waiting]
            assert np.array_equal(found, np.where(expected, waiting, 0))

    def test_significant(self) -> None:
        updates = [0.0, 0.1, 0.0099, -0.011, 5.0, 0.0, np.nan]
        weights = np.array([0.0, 0.0, 1.0, -1.0, 1e9, 1.0, 1.0], np.float32)
        expected = [False, True, False, True, False, False, False]
        assert significant(gradient(updates, step=1.0, weights=weights)).tolist() == expected


class TestMaxN:
    @given(ROWS, st.sampled_from([0.0, 10.0, 60.0, 100.0]))
    def test_what_is_not_sent_adds_up(self, rows: Rows, n: float) -> None:
        for waiting, found in played(Accumulated(MaxN(n).selected), rows, links(1, 2)):
            assert np.array_equal(found, np.where(max_n(waiting, n), waiting, 0))

    def test_by_default_it_is_forgotten(self) -> None:
        hook = MaxN(10)
        sent = [dense(hook(gradient([1.0, 9.0]), links(1))[1], 2).tolist() for _ in range(10)]
        assert sent == [[0, 9]] * 10


class TestPerLinkAddedUp:
    @given(ROWS)
    def test_each_peer_is_sent_the_largest_n_of_what_it_lacks(self, rows: Rows) -> None:
        hook, known = PerLinkAddedUp(), Links(0, {1: 8 * 6.0, 2: 8 * 20.0, 3: None}, 1.0)
        total = np.zeros(len(rows[0]), np.float32)
        sent = {peer: total.copy() for peer in known.peers}
        for row in rows:
            parts = hook(gradient(row), known)
            total = total + np.array(row, np.float32)
            for peer, part in parts.items():
                lacks = total - sent[peer]
                n = Ranks(gradient(lacks)).largest_n(known.budget_bytes(peer))
                found = dense(part, len(total))
                assert np.array_equal(found, np.where(max_n(lacks, n), lacks, 0))
                sent[peer] += found


class TestAko:
    @given(ROWS, st.sampled_from([1e9, 60.0, 30.0, 8.0, 3.0]))
    def test_every_block_once_in_p_iterations(self, rows: Rows, budget: float) -> None:
        size = len(rows[0])
        known = links(1, 2, bandwidth_bps=8 * budget)
        p, times = blocks(4 * size, known), np.zeros(size, int)
        assert p == max(1, math.ceil(4 * size / budget))
        cycled = [rows[at % len(rows)] for at in range(2 * p)]
        for at, (waiting, found) in enumerate(played(Blocks(), cycled, known)):
            block = slice(size * (at % p) // p, size * (at % p + 1) // p)
            times[block] += 1
            expected = np.zeros(size, np.float32)
            expected[block] = waiting[block]
            assert np.array_equal(found, expected)
        assert times.tolist() == [2] * size

    def test_the_rest_may_be_forgotten(self) -> None:
        hook, known = Blocks(accumulate=False), links(1, bandwidth_bps=8 * 16)
        parts = [hook(gradient(np.arange(12.0) + at), known)[1] for at in range(3)]
        for at, part in enumerate(parts):
            block = slice(4 * at, 4 * at + 4)
            assert dense(part, 12)[block].tolist() == (np.arange(12.0) + at)[block].tolist()
        assert [part.size_bytes for part in parts] == [16] * 3

    @pytest.mark.parametrize("before", range(FIRST + 2))
    def test_begins_anew_once_bandwidth_is_known(self, before: int) -> None:
        """Wherever the first round stands, the next p iterations send each block once."""
        hook, size, ones = Blocks(), 12, gradient(np.ones(12))
        for _ in range(before):
            hook(ones, links(1, 2))
        known = links(1, 2, bandwidth_bps=8 * 16)
        parts = [hook(ones, known)[1] for _ in range(3)]
        assert [part.size_bytes for part in parts] == [16] * 3  # as p is chosen for: no bitmap
        assert all(dense(part, size).any() for part in parts)

    def test_the_slowest_link_decides(self) -> None:
        both = {**links(1, bandwidth_bps=80).bandwidth_bps, 2: 8000.0}
        assert blocks(100, type(links())(0, both, 1.0)) == 10
        assert blocks(100, links(1)) == blocks(100, links()) == 0
        assert blocks(100, type(links())(0, {1: 8.0, 2: None}, 1.0)) == 0


class TestTopK:
    @given(ROWS, st.sampled_from([0.01, 0.1, 0.5, 1.0]))
    def test_error_feedback(self, rows: Rows, share: float) -> None:
        size = len(rows[0])
        count = max(1, int(share * size))
        for waiting, found in played(TopK(share), rows, links(1, 2, node=5)):
            chosen = sorted(range(size), key=lambda at: (-abs(waiting[at]), at))[:count]
            assert np.array_equal(found, np.where(np.isin(np.arange(size), chosen), waiting, 0))

    def test_it_sends_itself_too(self) -> None:
        assert TopK(0.5)(gradient([1.0]), links(1, 2, node=5)).keys() == {1, 2, 5}

    def test_per_variable(self) -> None:
        one = gradient([1.0, 5.0, 3.0, 100.0], (3, 1))
        (first, second) = TopK(0.01)(one, links(1))[1].pieces
        assert (first.variable, second.variable) == (slice(0, 3), slice(3, 4))
        assert dense(TopK(0.01)(one, links(1))[1], 4).tolist() == [0, 5, 0, 100]

    def test_momentum_by_hand(self) -> None:
        """Velocity 1, 1.5 and 1.75 of the smaller; what is sent begins again (masking)."""
        hook = TopK(0.5, momentum=0.5)
        sent = [dense(hook(gradient([1.0, 9.0]), links(1))[1], 2).tolist() for _ in range(2)]
        assert sent == [[0, 9], [0, 9]]
        assert hook.left.values is not None
        assert hook.velocity is not None
        assert hook.left.values.tolist() == [2.5, 0]
        assert hook.velocity.tolist() == [1.5, 0]
