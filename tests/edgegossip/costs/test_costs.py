"""What aggregation costs: operations of Table 3, and the shape of what is measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

from workbench.edgegossip.aggregation import generation, operations
from workbench.names import UnknownNameError


def test_operations_by_hand() -> None:
    assert operations("svd_kmeans", 100, 64, 10) == (100 * 8**3, 10 * 10 * 20 * 100)
    assert operations("hash_kmeans", 100, 64, 10) == (100 * 64, 10 * 10 * 20 * 100)
    # log2(0.1 x 3200 / 10) = 5 dimensions, 32 values of each point an iteration.
    reduce, divide = operations("incremental_svd_lsh", 128, 3200, 10)
    assert reduce == pytest.approx(5 * 20 * 32 * 128)
    assert divide == 5 * 128 * 7


def test_orders_that_the_paper_finds_in_its_figure_7() -> None:
    for features in (784, 3072):
        for ratio in (5, 10, 20):
            for technique in ("svd_kmeans", "hash_kmeans"):
                reduce, divide = operations(technique, 50_000, features, ratio)
                assert divide > reduce
            reduce, divide = operations("incremental_svd_lsh", 50_000, features, ratio)
            assert reduce > divide
    assert math.isfinite(operations("hash_kmeans", 1, 1, 1)[1])


def test_a_row_for_each_measurement() -> None:
    x = np.random.default_rng(0).random((40, 30))
    frame = generation(x, np.arange(40) % 2, ("hash_kmeans", "pca_lsh"), (2, 5), repeats=2)
    assert frame.height == 8
    assert frame.columns[:4] == ["technique", "ratio", "repeat", "aggregated"]
    lsh = frame.filter(technique="pca_lsh").sort("ratio")
    assert lsh["aggregated"].to_list() == [20, 20, 8, 8]
    assert (frame["total_s"] > 0).all()


def test_refused() -> None:
    with pytest.raises(UnknownNameError, match="Table 3"):
        operations("pca_lsh", 10, 10)
    with pytest.raises(ValueError, match="at least one"):
        operations("svd_kmeans", 0, 10)
    with pytest.raises(ValueError, match="repeats"):
        generation(np.eye(4), [0] * 4, repeats=0)
