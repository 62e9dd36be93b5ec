"""Dividers: subsets within range, as many as asked for where that is promised, similar points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.edgegossip.aggregation.dividers import Divider, gaussian_mixture, kmeans, lsh

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


class TestLsh:
    @given(count=st.integers(1, 200), share=st.floats(0, 1))
    def test_buckets_are_as_many_as_asked_for_and_nearly_equal(
        self, count: int, share: float
    ) -> None:
        parts = max(1, round(share * count))
        sizes = np.bincount(lsh(np.random.default_rng(0).random((count, 2)), parts, 1))
        assert len(sizes) == parts
        assert sizes.min() >= 1
        # Each of at most log2(parts) + 1 splits rounds by less than one point, halved from then on.
        assert sizes.max() - sizes.min() <= 3

    @given(
        count=st.integers(1, 60), levels=st.integers(1, 5), kept=st.integers(1, 3), data=st.data()
    )
    def test_equal_points_share_a_bucket_and_no_other_is_given_up(
        self, count: int, levels: int, kept: int, data: st.DataObject
    ) -> None:
        parts = data.draw(st.integers(1, count))
        x = np.random.default_rng(count).integers(0, levels, (count, kept)).astype(float)
        found = lsh(x, parts, 2)
        kinds = {tuple(point) for point in x.tolist()}
        pairs = {(tuple(point), own) for point, own in zip(x.tolist(), found.tolist(), strict=True)}
        assert len(pairs) == len(kinds)
        assert set(found.tolist()) == set(range(min(parts, len(kinds))))

    def test_a_cut_goes_to_the_nearest_place_between_points_that_differ(self) -> None:
        # Half of ten points is five: four and six are nearer to that than seven and three.
        x = np.repeat([0.0, 1.0, 2.0], [4, 3, 3])[:, None]
        assert sorted(np.bincount(lsh(x, 2, 0)).tolist()) == [4, 6]


def test_a_feature_far_apart_ends_kmeans_no_earlier() -> None:
    """Lloyd's algorithm goes on until every point is nearest to its own mean."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.standard_normal((200, 2)), 1000.0 * (np.arange(200) % 4)])
    labels = kmeans(x, 20)
    means = np.stack([x[labels == one].mean(axis=0) for one in range(20)])
    distances = np.linalg.norm(x[:, None] - means, axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)
