"""Every technique through the same suite: subsets of one class, means of original features."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from tests.edgegossip.strategies import labelled_points
from tests.long import usually
from tests.oracles import edgegossip as oracle
from tests.refusals import refusals
from workbench.datasets import Dataset, load
from workbench.edgegossip import TECHNIQUES, Aggregation, aggregate
from workbench.edgegossip.aggregation import Technique
from workbench.edgegossip.aggregation.dividers import lsh

some_techniques = pytest.mark.parametrize(
    "technique", usually(("incremental_svd_lsh", "hash_kmeans", "svd_kmeans"), TECHNIQUES)
)
Points = tuple[NDArray[np.float64], NDArray[np.int64], float]


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


@some_techniques
@settings(deadline=None, max_examples=40)
@given(data=labelled_points())
def test_every_point_is_in_one_subset_of_its_class_with_the_mean(
    technique: str, data: Points
) -> None:
    x, y, ratio = data
    made = aggregate(x, y, technique, ratio)
    np.testing.assert_array_equal(made.labels[made.members], y)
    together = np.concatenate([made.subset(number) for number in range(len(made))])
    assert sorted(together.tolist()) == list(range(len(x)))
    # A mean of n doubles is off by at most about n units in the last place of the largest.
    slack = 1e-13 * float(np.abs(x).max())
    expected = oracle.aggregated_points(x.tolist(), made.members.tolist())
    np.testing.assert_allclose(made.points, expected, rtol=0, atol=slack)
    # No more subsets than asked for, and no class without one.
    classes = np.unique(y)
    assert set(made.labels.tolist()) == set(classes.tolist())
    assert len(made) <= max(int(len(x) / ratio), len(classes))


def test_half_precision_is_taken_as_single_and_so_are_whole_pixels() -> None:
    made = aggregate(np.full((4, 300), 60_000, np.float16), [0] * 4, "hash_kmeans", 4)
    np.testing.assert_array_equal(made.points, np.full((1, 300), 60_000, np.float32))
    made = aggregate(np.array([[0, 255], [1, 254]], np.uint8), [0, 0], "hash_kmeans", 2)
    np.testing.assert_array_equal(made.points, [[0.5, 254.5]])


@some_techniques
def test_similar_points_are_together(technique: str, digits: Dataset) -> None:
    # Enlarged, since incremental SVD learns from 1 % of the features.
    x, y = digits.fitted((1, 28, 28)).x_train, digits.y_train
    made = aggregate(x, y, technique, 10)
    rng = np.random.default_rng(0)

    def spread(members: NDArray[np.int64]) -> float:
        total = 0.0
        for subset in range(len(made)):
            own = x[members == subset]
            total += float(((own - own.mean(axis=0)) ** 2).sum())
        return total

    def shuffled() -> NDArray[np.int64]:
        members = made.members.copy()
        for name in np.unique(y):
            own = np.flatnonzero(y == name)
            members[own] = rng.permutation(members[own])
        return members

    # Subsets of the same sizes at random come out lowest in one of 31 such comparisons.
    assert spread(made.members) < min(spread(shuffled()) for _ in range(30))


@some_techniques
def test_same_seed_gives_the_same_bits_whatever_the_thread(technique: str, digits: Dataset) -> None:
    made: list[Aggregation] = []

    def run() -> None:
        made.append(aggregate(digits.x_train, digits.y_train, technique, 20, seed=3))

    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    first, second = made
    np.testing.assert_array_equal(first.members, second.members)
    np.testing.assert_array_equal(first.points, second.points)
    other = aggregate(digits.x_train, digits.y_train, technique, 20, seed=4)
    assert not np.array_equal(other.members, first.members)
    assert first.points.shape == (len(first), 1, 8, 8)  # images keep their shape and type
    assert first.points.dtype == np.float32
    assert 0.8 * len(digits.y_train) / 20 < len(first) <= len(digits.y_train) / 20


def test_ratio_1_is_the_data_itself_and_that_of_all_points_their_mean() -> None:
    x = np.random.default_rng(0).random((20, 4))
    made = aggregate(x, np.arange(20) % 3, "pca_lsh", 1)
    np.testing.assert_array_equal(made.points[made.members], x)
    made = aggregate(x, np.zeros(20, int), "pca_lsh", 20)
    np.testing.assert_allclose(made.points, x.mean(axis=0, keepdims=True), rtol=1e-14)


def test_means_are_of_double_precision() -> None:
    # In float32 a running sum of 2^24 stays there when 1 is added.
    x = np.array([2.0**24] + [1.0] * 9, np.float32)[:, None]
    made = aggregate(x, np.zeros(10, int), "hash_kmeans", 10)
    assert made.points[0, 0] == np.float32((2.0**24 + 9) / 10)


def test_a_technique_of_ones_own() -> None:
    def two(x: NDArray[Any], parts: int, seed: int) -> NDArray[np.int64]:
        return np.where(x[:, 0] > 0, 7, 3)

    technique = Technique(lambda x, ratio, seed: x[:, :1], two)
    made = aggregate([[-1.0, 0.0], [2.0, 0.0], [3.0, 1.0]], [5, 5, 5], technique, 1)
    assert made.members.tolist() == [0, 1, 1]
    np.testing.assert_array_equal(made.points, [[-1, 0], [2.5, 0.5]])


def test_clusters_of_several_classes_make_no_more_subsets() -> None:
    """k-means may begin in no point of a small class; then each class is divided on its own."""

    def mixing(x: NDArray[Any], parts: int, seed: int) -> NDArray[np.int64]:
        return np.arange(len(x)) % parts

    x, y = np.random.default_rng(0).random((30, 4)), np.arange(30) // 6
    made = aggregate(x, y, Technique(lambda x, ratio, seed: x, mixing, together=True), 5)
    assert len(made) == 6


X, Y = np.zeros((4, 3)), np.array([0, 0, 1, 1])

test_refused = refusals(
    aggregate,
    {"x": X, "y": Y, "technique": "hash_kmeans", "ratio": 1},
    {
        "x": {
            "at least one point": [np.zeros((0, 3))],
            "a row of features": [np.zeros(4)],
            "must hold numbers": [np.full((4, 3), "a")],
            "in 2 of 4 points, first in point 1": [[[0.0], [np.nan], [0.0], [np.inf]]],
        },
        "y": {"one class for each of the 4 points": [Y[:3]], "whole numbers": [Y + 0.5]},
        "technique": {
            r"Did you mean 'svd_kmeans'\?.*pca_lsh": ["svd_kmean"],
            r"give a name .*, or a Technique": [None, 5, ("svd_kmeans",)],
            "the reducer made": [
                Technique(lambda x, ratio, seed: x[:2], lsh),
                Technique(lambda x, ratio, seed: x + np.nan, lsh),
            ],
            "the divider gave": [
                Technique(lambda x, ratio, seed: x, lambda x, parts, seed: np.zeros(1, np.int64))
            ],
        },
        "ratio": {
            "less than one aggregated point from 4 points": [5],
            "at least 1": [0.5],
        },
    },
)
