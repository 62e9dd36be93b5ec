"""Accuracy-aware selection against the printed pseudo-code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.edgegossip.strategies import aggregations
from tests.oracles import edgegossip as oracle
from tests.refusals import refusals
from workbench.edgegossip import Aggregation, ranked, selected
from workbench.edgegossip.algorithms.effects import quota

RATIO = st.one_of(st.floats(0.01, 1), st.sampled_from((0.1, 0.25, 0.5, 1.0)))


def effects_of(made: Aggregation, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(one) for one in rng.integers(0, 4, len(made))]  # few values: ties are frequent


@given(made=aggregations(), ratio=RATIO, batch_size=st.integers(1, 12), seed=st.integers(0, 50))
def test_is_algorithm_2_less_the_batch_that_nobody_needs(
    made: Aggregation, ratio: float, batch_size: int, seed: int
) -> None:
    effects = effects_of(made, seed)
    subsets = [made.subset(number).tolist() for number in range(len(made))]
    expected = oracle.algorithm_2(subsets, effects, ratio, batch_size)
    found = [batch.tolist() for batch in selected(made, ranked(effects), ratio, batch_size)]
    needed = quota(len(made.members), ratio)
    # Where the share is met exactly, `<=` as printed goes on for one batch.
    if sum(map(len, expected[:-1])) == needed:
        expected = expected[:-1]
    assert found == expected


@given(made=aggregations(), seed=st.integers(0, 50))
def test_a_smaller_share_is_the_beginning_of_a_larger_one(made: Aggregation, seed: int) -> None:
    order = ranked(effects_of(made, seed))
    small, large = (
        [batch.tolist() for batch in selected(made, order, ratio, 3)] for ratio in (0.3, 0.8)
    )
    assert small == large[: len(small)]


def test_infinite_losses_come_first() -> None:
    assert ranked([1, np.inf, 2]).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("points", "ratio", "expected"),
    [(100, 0.07, 7), (10, 0.71, 8), (3, 1 / 3, 1), (10, 0, 0), (10, 1, 10), (1000, 1e-9, 1)],
)
def test_quota_is_not_misled_by_rounding(points: int, ratio: float, expected: int) -> None:
    assert quota(points, ratio) == expected


test_ranked_refused = refusals(
    ranked, {"effects": [1.0]}, {"effects": {"effects": [[], [[1.0]], [1, np.nan]]}}
)
test_selected_refused = refusals(
    selected,
    {
        "aggregation": Aggregation(np.zeros((2, 1)), np.zeros(2, np.int64), np.array([0, 1]), 1),
        "order": [0, 1],
        "ratio": 1,
        "batch_size": 1,
    },
    {
        "order": {"each of the 2 subsets once": [[0], [0, 0], [1, 2], [0, 1, 1]]},
        "ratio": {"0 to 1": [-0.1, 1.1, np.nan]},
        "batch_size": {"batch_size": [0, -1, 1.5]},
    },
)
