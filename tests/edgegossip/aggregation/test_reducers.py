"""Each reduction against loops, or against what makes it that reduction."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.oracles import edgegossip as oracle
from workbench.edgegossip.aggregation.incremental_svd import (
    ITERATIONS,
    LEARNING_RATE,
    SHRINKING,
    START,
    dimensions,
    factors,
    incremental_svd,
)
from workbench.edgegossip.aggregation.reducers import (
    AT_ONCE,
    Reducer,
    histogram,
    pca,
    simhash,
    single_svd,
    whole_svd,
)


class TestSingleSvd:
    @pytest.mark.parametrize(
        ("shape", "matrix_shape"),
        [
            *(((1, 28, 28), (28, 28)), ((3, 6, 5), (18, 5)), ((3, 2), (3, 2))),
            *(((1,), (1, 1)), ((7,), (3, 3)), ((6,), (2, 3))),  # the squarest that holds a vector
        ],
    )
    def test_is_the_svd_of_each_point_alone(
        self, shape: tuple[int, ...], matrix_shape: tuple[int, int]
    ) -> None:
        x = np.random.default_rng(0).standard_normal((5, *shape))
        for image, row in zip(x, single_svd(x), strict=True):
            matrix = np.zeros(matrix_shape)
            matrix.flat[: image.size] = image.ravel()
            expected = oracle.singular_values(matrix.tolist(), min(10, *matrix.shape))
            # Square roots lose half of the digits of a value near zero.
            np.testing.assert_allclose(row, expected, atol=1e-6)

    def test_many_points_are_as_few(self) -> None:
        x = np.random.default_rng(0).random((AT_ONCE + 3, 4))
        np.testing.assert_array_equal(single_svd(x)[-5:], single_svd(x[-5:]))


class TestIncrementalSvd:
    @pytest.mark.parametrize(
        ("features", "ratio", "expected"),
        [(784, 5, 4), (784, 10, 3), (784, 20, 2), (3072, 10, 5), (64, 10, 1), (1, 1000, 1)],
    )
    def test_dimensions_by_hand(self, features: int, ratio: float, expected: int) -> None:
        assert dimensions(features, ratio) == expected

    @settings(deadline=None, max_examples=10)
    @given(st.integers(0, 1000), st.integers(1, 3), st.integers(1, 4))
    def test_is_the_plain_algorithm_where_points_come_one_by_one(
        self, seed: int, kept: int, drawn: int
    ) -> None:
        values = np.random.default_rng(seed).standard_normal((6, 9))
        u, v = factors(values, kept, drawn, np.random.default_rng(seed), block=1)
        rng = np.random.default_rng(seed)
        start = (
            START * rng.standard_normal((6, kept)),
            START * rng.standard_normal((9, kept)),
        )
        chosen = [[rng.integers(0, 9, (6, drawn)) for _ in range(ITERATIONS)] for _ in range(kept)]
        expected = oracle.hebbian(values, chosen, LEARNING_RATE, SHRINKING, start)
        np.testing.assert_allclose(u, expected[0], rtol=1e-9)
        np.testing.assert_allclose(v, expected[1], rtol=1e-9)

    def test_points_in_blocks_learn_nearly_the_same(self) -> None:
        values = np.random.default_rng(0).random((64, 64))
        plain, blocks = (
            factors(values, 2, 1, np.random.default_rng(1), block=size)[0] for size in (1, 64)
        )
        assert 0 < np.abs(plain - blocks).max() < 0.05 * np.abs(plain).max()

    def test_learns_the_largest_singular_vector(self) -> None:
        rng = np.random.default_rng(0)
        left, right = rng.random(24), rng.random(16)
        values = np.outer(left, right)
        u, v = factors(values, 1, 16, rng, block=24, iterations=1000)
        found = np.linalg.norm(u)
        left = left - left.mean()
        direction = left / np.linalg.norm(left)
        np.testing.assert_allclose(
            np.sign(u[0, 0] * left[0]) * u[:, 0] / found, direction, atol=0.01
        )
        # Each value shrinks both of its factors: as a penalty of 0.015 N on v and 0.015 d on u,
        # under which the best singular value is lower by 0.015 sqrt(N d).
        exact = np.linalg.norm(left) * np.linalg.norm(right) * 255 / np.ptp(values)
        lower = exact - SHRINKING * math.sqrt(24 * 16)
        assert found * np.linalg.norm(v) == pytest.approx(lower, rel=0.01)

    def test_learns_with_the_papers_numbers(self) -> None:
        """It explains most of what as many principal components do."""
        rng = np.random.default_rng(3)
        kinds = rng.standard_normal((20, 3200)).cumsum(axis=1)  # smooth, as images are
        x = kinds[np.arange(400) % 20] + rng.standard_normal((400, 3200))
        found = incremental_svd(x, 10, 0)
        best = pca(x)[:, : found.shape[1]]

        def unexplained(reduced: NDArray[np.float64]) -> float:
            design = np.column_stack([np.ones(len(x)), reduced])
            left = x - design @ np.linalg.lstsq(design, x, rcond=None)[0]
            return float((left**2).sum() / ((x - x.mean(axis=0)) ** 2).sum())

        assert 1 - unexplained(found) > 0.8 * (1 - unexplained(best))


def test_simhash_is_linear_with_signs() -> None:
    signs = simhash(np.eye(50), seed=2)
    assert set(signs.ravel().tolist()) == {-1.0, 1.0}
    x = np.random.default_rng(0).random((7, 50))
    np.testing.assert_allclose(simhash(x, seed=2), x @ signs, rtol=1e-12)


@given(st.lists(st.lists(st.integers(-8, 8), min_size=4, max_size=4), min_size=1, max_size=6))
def test_histogram_is_counting(rows: list[list[int]]) -> None:
    # Sixteenths from a range of 16, in ten bins: edges are at 1.6, never at a value but 0.
    x = np.array([[-8.0] * 4, [8.0] * 4, *rows])
    reduced = histogram(x.reshape(len(x), 1, 2, 2))
    for row, values in zip(reduced, x.tolist(), strict=True):
        assert row.tolist() == pytest.approx(oracle.histogram(values, -8, 8, 10))


def test_the_whole_svd_keeps_the_largest_directions() -> None:
    x = np.random.default_rng(0).random((60, 20)) @ np.diag(0.5 ** np.arange(20))
    values = np.linalg.svd(x, compute_uv=False)[:10]
    np.testing.assert_allclose(np.linalg.norm(whole_svd(x), axis=0), values, rtol=1e-3)


def test_pca_keeps_the_directions_of_largest_variance() -> None:
    x = np.random.default_rng(0).random((60, 20))
    variances = np.sort(np.linalg.eigvalsh(np.cov(x.T)))[::-1][:10]
    reduced = pca(x)
    np.testing.assert_allclose(reduced.var(axis=0, ddof=1), variances, rtol=1e-9)
    for one, other in itertools.combinations(reduced.T, 2):
        assert abs(one @ other) < 1e-9


@pytest.mark.parametrize(
    "reduce", [single_svd, incremental_svd, simhash, whole_svd, pca, histogram]
)
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (2, 30), (4, 1, 5, 5)])
def test_small_data_gives_a_row_for_each_point(reduce: Reducer, shape: tuple[int, ...]) -> None:
    for x in (np.random.default_rng(0).random(shape), np.zeros(shape)):
        reduced = reduce(x.astype(np.float32), 1, 0)
        assert reduced.dtype == np.float64
        assert reduced.ndim == 2
        assert len(reduced) == shape[0]
        assert 1 <= reduced.shape[1] <= 10
        assert np.isfinite(reduced).all()
