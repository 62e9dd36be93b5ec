"""What aggregation costs: operations of Table 3, as they are run."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from workbench.edgegossip.aggregation import aggregate, operations
from workbench.edgegossip.aggregation.incremental_svd import dimensions, factors


def test_operations_by_hand() -> None:
    assert operations("svd_kmeans", 100, 64, 10) == (100 * 8**3, 11 * 10 * 20 * 100)
    assert operations("hash_kmeans", 100, 64, 10) == (100 * 64, 11 * 10 * 20 * 100)
    # log2(0.1 x 3200 / 10) = 5 dimensions, 32 values of each point an iteration.
    reduce, divide = operations("incremental_svd_lsh", 128, 3200, 10, 4)
    assert reduce == pytest.approx(5 * 20 * 32 * 128)
    assert divide == 5 * 128 * 5


@pytest.mark.parametrize("technique", ["svd_kmeans", "hash_kmeans"])
def test_clustering_costs_what_is_charged(technique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances that Lloyd's iterations compute, counted where they run, at most 20 of them."""
    rng, counted = np.random.default_rng(0), list[int]()
    x, y = rng.random((400, 12, 12)), np.arange(400) % 4
    fit_predict = KMeans.fit_predict

    def counting(self: KMeans, points: NDArray[np.float64]) -> NDArray[np.int32]:
        labels: NDArray[np.int32] = fit_predict(self, points)
        assert self.max_iter == 20
        counted.append(self.n_clusters * points.size * self.max_iter)
        return labels

    monkeypatch.setattr(KMeans, "fit_predict", counting)
    aggregate(x, y, technique, 10)
    assert sum(counted) == operations(technique, 400, 144, 10, 4)[1]


def test_learning_singular_vectors_costs_what_is_charged() -> None:
    """Values that are drawn: of each point 1 % of its features, in 20 iterations a dimension."""

    class Counting:
        drawn = 0

        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)
            self.standard_normal = self.rng.standard_normal

        def integers(self, low: int, high: int, size: tuple[int, int]) -> NDArray[np.int64]:
            self.drawn += size[0] * size[1]
            found: NDArray[np.int64] = self.rng.integers(low, high, size)
            return found

    rng = Counting()
    x = np.random.default_rng(0).random((64, 1600))
    factors(x, dimensions(1600, 5), 16, cast(np.random.Generator, rng), block=1600)
    assert rng.drawn == operations("incremental_svd_lsh", 64, 1600, 5)[0]


@pytest.mark.parametrize(
    ("technique", "points", "message"),
    [("pca_lsh", 10, "technique of Table 3"), ("svd_kmeans", 0, "at least one")],
)
def test_what_the_table_does_not_count_is_refused(
    technique: str, points: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        operations(technique, points, 10)
