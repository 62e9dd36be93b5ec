"""When losses are compared, and who then asks whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.dlion.algorithms.knowledge_transfer import Transfer

LOSSES = st.dictionaries(st.integers(0, 6), st.sampled_from([0.0, 0.5, 0.5, 1.0]), min_size=1)


@given(LOSSES)
def test_who_asks_whom(losses: dict[int, float]) -> None:
    least, most = min(losses.values()), max(losses.values())
    best = min(node for node in losses if losses[node] == least)
    worst = max(node for node in losses if losses[node] == most)
    everyone, one = Transfer(), Transfer(whom="worst")
    assert everyone.best(losses) == one.best(losses) == best
    assert [node for node in losses if everyone.asks(node, losses)] == [
        node for node in losses if node != best
    ]
    asking = [node for node in losses if one.asks(node, losses)]
    assert asking == ([] if worst == best else [worst])


@pytest.mark.parametrize(
    ("transfer", "due"),
    [
        (Transfer(period=4), [4, 8, 12, 16, 20]),
        (Transfer(period=1), list(range(1, 21))),
        (Transfer(period=8, early_until=10, early_period=3), [3, 6, 9, 16]),
        (Transfer(period=50, early_until=20, early_period=10), [10, 20]),
        (Transfer(period=5, early_until=1, early_period=1), [1, 5, 10, 15, 20]),
    ],
)
def test_periods(transfer: Transfer, due: list[int]) -> None:
    assert [one for one in range(1, 21) if transfer.is_due(one)] == due
