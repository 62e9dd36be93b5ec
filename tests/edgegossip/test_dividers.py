"""Dividers: subsets within range, as many as asked for where that is promised, similar points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.edgegossip.aggregation.gaussian_mixture import gaussian_mixture
from workbench.edgegossip.aggregation.kmeans import kmeans
from workbench.edgegossip.aggregation.lsh import lsh
from workbench.edgegossip.aggregation.techniques import Divider

DIVIDERS: dict[str, Divider] = {"kmeans": kmeans, "lsh": lsh, "mixture": gaussian_mixture}
every_divider = pytest.mark.parametrize("divide", DIVIDERS.values(), ids=DIVIDERS.keys())


@every_divider
@settings(deadline=None, max_examples=40)
@given(
    count=st.integers(1, 40),
    kept=st.integers(1, 5),
    share=st.floats(0, 1),
    levels=st.integers(0, 9),
)
def test_subsets_are_within_range(
    divide: Divider, count: int, kept: int, share: float, levels: int
) -> None:
    x = np.random.default_rng(count).integers(0, levels + 1, (count, kept)).astype(float)
    parts = max(1, round(share * count))
    found = divide(x, parts, 5)
    assert found.shape == (count,)
    assert found.dtype == np.int64
    assert 0 <= found.min() <= found.max() < parts
    np.testing.assert_array_equal(found, divide(x, parts, 5))


@every_divider
def test_clear_groups_are_found(divide: Divider) -> None:
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 32)
    x = rng.standard_normal((64, 3)) + 100 * group[:, None]
    found = divide(x, 2, 0)
    assert len(np.unique(found[group == 0])) == 1
    assert len(np.unique(found[group == 1])) == 1
    assert found[0] != found[-1]


@every_divider
@pytest.mark.parametrize("parts", [0, 4])
def test_refused(divide: Divider, parts: int) -> None:
    with pytest.raises(ValueError, match=f"3 points cannot be divided into {parts}"):
        divide(np.zeros((3, 2)), parts, 0)


class TestLsh:
    @given(count=st.integers(1, 200), share=st.floats(0, 1), same=st.booleans())
    def test_buckets_are_as_many_as_asked_for_and_nearly_equal(
        self, count: int, share: float, same: bool
    ) -> None:
        parts = max(1, round(share * count))
        x = np.zeros((count, 2)) if same else np.random.default_rng(0).random((count, 2))
        sizes = np.bincount(lsh(x, parts, 1), minlength=parts)
        assert len(sizes) == parts
        assert sizes.min() >= 1
        # Each of at most log2(parts) + 1 splits rounds by less than one point, halved from then on.
        assert sizes.max() - sizes.min() <= 3

    def test_each_bucket_is_on_one_side_of_the_first_hyperplane(self) -> None:
        x = np.random.default_rng(0).standard_normal((64, 3))
        score = x @ np.random.default_rng(7).standard_normal(3)
        found = lsh(x, 4, 7)
        assert score[found < 2].max() <= score[found >= 2].min()

    def test_along_a_line_buckets_are_stretches(self) -> None:
        x = np.random.default_rng(0).permutation(30.0 * np.arange(90))[:, None]
        found = lsh(x, 9, 0)
        for bucket in range(9):
            own = np.sort(x[found == bucket, 0])
            np.testing.assert_array_equal(np.diff(own), 30)
