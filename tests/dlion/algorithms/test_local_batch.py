"""Local batches: whole, in proportion to power; power by a line through times."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import dlion_parts as oracle
from tests.refusals import refusals
from workbench.dlion.algorithms.local_batch import (
    local_batch_sizes,
    own_batch_size,
    relative_power,
)

POWER = st.sampled_from([1e-9, 0.5, 1.0, 1.0, 2.0, 3.0, 10.0, 24.0, 1e9])


@given(st.lists(POWER, min_size=1, max_size=8), st.integers(0, 300))
def test_whole_shares(power: list[float], more: int) -> None:
    batch = len(power) + more
    found, exact = local_batch_sizes(batch, power), oracle.exact_shares(batch, power)
    assert sum(found) == batch
    assert min(found) >= 1
    # At least one each raises the small; what that takes from the large may be more than a sample.
    if sum(max(1, int(one)) for one in exact) <= batch:
        assert all(abs(a - b) < 1 + 1e-9 for a, b in zip(found, exact, strict=True))
    for a, b in combinations(range(len(power)), 2):
        if power[a] >= power[b]:
            assert found[a] >= found[b]
        else:
            assert found[a] <= found[b]
    assert local_batch_sizes(batch, [2.0 * one for one in power]) == found


def test_by_hand() -> None:
    assert local_batch_sizes(192, (24, 24, 12, 12, 6, 6)) == (55, 55, 27, 27, 14, 14)
    assert local_batch_sizes(10, (1, 1, 1)) == (4, 3, 3)
    assert local_batch_sizes(267, (12, 1, 2)) == (214, 18, 35)  # 213.6, 17.8, 35.6
    assert local_batch_sizes(6, (1e9, 1, 1)) == (4, 1, 1)
    assert local_batch_sizes(3, (5e307, 1e308, 1e308)) == (1, 1, 1)
    assert own_batch_size(12, {5: 2.0, 1: 1.0, 3: 3.0}, 3) == 6


test_refused = refusals(
    local_batch_sizes,
    {"global_batch": 9, "power": (1, 1, 1)},
    {
        "global_batch": {
            "2 samples for 3 workers; each needs at least one": [2],
            "global_batch is": [0, 1.5, "9"],
        },
        "power": {
            "give each worker's": [()],
            "above 0 and finite": [(1, 0), (1, -1), (1, math.inf), (1, math.nan)],
            "power is '1'; give a number": [("1",)],
            "power is '12'; give one a worker": ["12"],
            "where order counts": [{0: 1.0}],
            "power is 3": [3],
        },
    },
)


TIMES = st.lists(
    st.tuples(st.integers(1, 64), st.sampled_from([0.0, 0.1, 0.5, 1.0, 10.0])),
    min_size=2,
    max_size=6,
    unique_by=lambda pair: pair[0],
)


@given(TIMES)
def test_power_is_on_the_line_of_least_squares(times: list[tuple[int, float]]) -> None:
    sizes, seconds = zip(*times, strict=True)
    if not max(seconds):
        return
    matrix = np.stack([np.ones(len(sizes)), np.array(sizes, float)], 1)
    (_, slope_s), *_ = np.linalg.lstsq(matrix, np.array(seconds), rcond=None)
    found = relative_power(sizes, seconds)
    assert found > 0
    if slope_s > 1e-6:
        assert found == pytest.approx(1 / slope_s, rel=1e-6)
    elif slope_s < -1e-6:
        assert found == pytest.approx(max(sizes) / max(seconds))


def test_power_by_hand() -> None:
    assert relative_power((4, 8, 16), (0.4, 0.8, 1.6)) == pytest.approx(10)
    assert relative_power((4, 8, 16), (0.9, 1.3, 2.1)) == pytest.approx(10)  # half a second aside
    assert relative_power((1, 2), (3, 4)) == pytest.approx(1)  # two seconds aside


@pytest.mark.parametrize("count", range(2, 12))
def test_a_constant_time_is_no_slope(count: int) -> None:
    sizes = [4 * at for at in range(1, count + 1)]
    assert relative_power(sizes, [0.1] * count) == pytest.approx(max(sizes) / 0.1)


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [
        ((4,), (1.0,)),
        ((4, 4), (1.0, 2.0)),
        ((4, 8), (1.0,)),
        ((), ()),
        ((4, 8), (0.0, 0.0)),
        ((4, 8), (-1.0, 1.0)),
        ((4, 8), (float("nan"), 1.0)),
        ((4, 8), (float("inf"), 1.0)),
    ],
)
def test_no_line(sizes: tuple[int, ...], seconds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"at least two different sizes|batches take some"):
        relative_power(sizes, seconds)
