"""Every sample finds exactly one node, whatever the skew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refusals
from workbench import datasets
from workbench.datasets import Dataset, partition
from workbench.datasets.partition import Shards

LABELS = st.lists(st.integers(0, 6), min_size=12, max_size=80)
NODES = st.integers(1, 6)
SEEDS = st.integers(0, 5)
Deal = Callable[[list[int], int, int], Shards]

WAYS: dict[str, Deal] = {
    "by_size": lambda labels, nodes, seed: partition.by_size(labels, [1.0] * nodes, seed=seed),
    "by_class": lambda labels, nodes, seed: partition.by_class(labels, nodes, seed=seed),
    "dirichlet 0.01": lambda labels, nodes, seed: partition.dirichlet(
        labels, nodes, 0.01, seed=seed
    ),
    "dirichlet 10": lambda labels, nodes, seed: partition.dirichlet(labels, nodes, 10, seed=seed),
}


@pytest.mark.parametrize("deal", WAYS.values(), ids=WAYS)
@given(labels=LABELS, nodes=NODES, seed=SEEDS)
def test_every_sample_is_in_exactly_one_shard(
    deal: Deal, labels: list[int], nodes: int, seed: int
) -> None:
    shards = deal(labels, nodes, seed)
    assert len(shards) == nodes
    assert all(len(shard) and shard.dtype == np.int64 for shard in shards)
    assert all((np.diff(shard) > 0).all() for shard in shards)
    assert sorted(np.concatenate(shards).tolist()) == list(range(len(labels)))
    again = deal(labels, nodes, seed)
    assert all(np.array_equal(a, b) for a, b in zip(shards, again, strict=True))


@pytest.mark.parametrize("deal", WAYS.values(), ids=WAYS)
def test_another_seed_deals_otherwise(deal: Deal) -> None:
    labels = [sample % 5 for sample in range(100)]
    first, second = (deal(labels, 4, seed) for seed in (0, 1))
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@given(labels=LABELS, shares=st.lists(st.floats(0.5, 2.0), min_size=1, max_size=4), seed=SEEDS)
def test_sizes_are_the_shares_within_a_sample(
    labels: list[int], shares: list[float], seed: int
) -> None:
    shards = partition.by_size(labels, shares, seed=seed)
    for shard, share in zip(shards, shares, strict=True):
        assert abs(len(shard) - share / sum(shares) * len(labels)) < 1 + 1e-9


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e300, 4e307])
def test_sizes_are_the_same_at_any_scale_of_shares(scale: float) -> None:
    shards = partition.by_size(np.zeros(100), [scale, scale * 3, scale * 4], seed=0)
    assert [len(shard) for shard in shards] == [13, 37, 50]


@pytest.mark.parametrize("classes_per_node", [1, 2, 5])
def test_by_class_gives_few_classes(classes_per_node: int) -> None:
    labels = np.repeat(np.arange(10), 60)  # divides evenly: a piece is of one class
    shards = partition.by_class(labels, 10, classes_per_node=classes_per_node, seed=3)
    assert all(len(shard) == 60 for shard in shards)
    assert all(len(set(labels[shard])) <= classes_per_node for shard in shards)


@given(labels=LABELS, nodes=st.integers(1, 4), classes_per_node=st.integers(1, 3), seed=SEEDS)
def test_cuts_across_small_classes_add_few(
    labels: list[int], nodes: int, classes_per_node: int, seed: int
) -> None:
    """A piece of s samples in k classes holds k - 2 of them whole, and one of each at its ends."""
    piece, smallest = -(-len(labels) // (nodes * classes_per_node)), min(map(labels.count, labels))
    shards = partition.by_class(labels, nodes, classes_per_node=classes_per_node, seed=seed)
    most = min(piece, 2 + max(0, piece - 2) // smallest)
    assert all(len({labels[at] for at in shard}) <= classes_per_node * most for shard in shards)


def test_small_alpha_skews_and_large_alpha_does_not() -> None:
    labels = datasets.load("digits").y_train

    def largest_class(alpha: float) -> float:
        shards = partition.dirichlet(labels, 8, alpha, seed=0)
        return float(np.mean([np.bincount(labels[shard]).max() / len(shard) for shard in shards]))

    assert largest_class(0.05) > 0.5
    assert largest_class(1000.0) < 0.15  # a tenth each, give or take


@pytest.mark.parametrize("alpha", [1e16, 1e300, 1.7e308])
def test_hugest_alpha_gives_equal_shares(alpha: float) -> None:
    shards = partition.dirichlet(np.repeat([0, 1], 100), 4, alpha, seed=0)
    assert [len(shard) for shard in shards] == [50] * 4


@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0, 1e12, 1e308])
@pytest.mark.parametrize("samples_per_class", [1, 3, 5])
def test_rounding_small_classes_favours_no_node(alpha: float, samples_per_class: int) -> None:
    classes, nodes = 400, 4
    shards = partition.dirichlet(
        np.repeat(np.arange(classes), samples_per_class), nodes, alpha, seed=1
    )
    mean = classes / nodes  # of classes, if each goes to one node; less deviates where it is split
    assert all(
        abs(len(shard) / samples_per_class - mean) < 5 * (mean * (1 - 1 / nodes)) ** 0.5
        for shard in shards
    )


@pytest.mark.parametrize("alpha", [5e-324, 1e-300, 1e-5])
def test_tiniest_alpha_gives_each_class_to_any_one_node(alpha: float) -> None:
    labels = np.repeat(np.arange(200), 5)
    shards = partition.dirichlet(labels, 4, alpha, seed=0)
    assert all(len(set(labels[shard])) * 5 == len(shard) for shard in shards)
    # Each of four nodes gets a class with probability 1/4: 50 of 200, give or take five deviations.
    assert all(abs(len(shard) / 5 - 50) < 5 * (200 * 3 / 16) ** 0.5 for shard in shards)


def test_no_stream_of_random_numbers_is_shared_with_another_purpose() -> None:
    """The first order of each purpose, at the same seed."""
    count, x = 40, np.arange(40.0)[:, None]
    whole = Dataset("x", x, x, x, x)
    limited = whole.limit(count - 1, count - 1)
    bare = np.random.SeedSequence(0), *(np.random.SeedSequence(0, spawn_key=(at,)) for at in (0, 1))
    orders = [np.random.default_rng(stream).permutation(count).tolist() for stream in bare]
    orders += [limited.y_train[:, 0].tolist(), limited.y_test[:, 0].tolist()]
    (first, *_) = partition.by_size(np.zeros(count, int), [1, 3], seed=0)
    assert len({tuple(order[:10]) for order in orders}) == len(orders)
    assert all(sorted(order[:10]) != first.tolist() for order in orders)


test_by_size_refused = refusals(
    partition.by_size,
    {"labels": [0, 1], "shares": [1, 1], "seed": 0},
    {
        "shares": {"node 2 would get none of 2": [[1, 1, 1]], "above 0": [[1, 0], []]},
        "seed": {"seed is .*; it must be a whole number of at least 0": [-1, 0.5, None]},
    },
)
test_by_class_refused = refusals(
    partition.by_class,
    {"labels": [0, 1, 2, 3], "nodes": 2, "seed": 0},
    {
        "labels": {"do not make 4 pieces": [[0, 1, 2]]},
        "nodes": {"nodes is 2.5": [2.5]},
        "classes_per_node": {"classes_per_node is": [0, "2"]},
    },
)
test_dirichlet_refused = refusals(
    partition.dirichlet,
    {"labels": [0, 1], "nodes": 2, "alpha": 1.0, "seed": 0},
    {
        "labels": {"whole number a sample": [[0.5, 1]]},
        "nodes": {"3 nodes cannot share 2 samples": [3], "nodes is": [0, 1.5]},
        "alpha": {"alpha is 0": [0.0], "alpha is '1'; give a number": ["1"]},
    },
)
