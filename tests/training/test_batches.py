"""Batches: every sample once an epoch, by seed, shared out among workers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench.datasets import load
from workbench.training import batches


@given(
    count=st.integers(1, 200),
    batch_size=st.integers(1, 40),
    workers=st.integers(1, 9),
    epoch=st.integers(0, 3),
)
def test_workers_share_every_sample_out_evenly(
    count: int, batch_size: int, workers: int, epoch: int
) -> None:
    workers = min(workers, count)
    dealt = [
        batches(count, batch_size, 5, epoch, worker=worker, workers=workers)
        for worker in range(workers)
    ]
    seen = np.concatenate([index for own in dealt for index in own])
    assert len(np.unique(seen)) == len(seen)
    assert len(seen) == count
    assert set(seen) <= set(range(count))
    assert {len(own) for own in dealt} == {len(dealt[0])}
    for same_round in zip(*dealt, strict=True):
        sizes = [len(one) for one in same_round]
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) <= batch_size
    for own in dealt:
        assert all(len(one) == batch_size for one in own[:-1])


def test_workers_together_learn_the_large_batch_of_one() -> None:
    alone = batches(1000, 32 * 4, 3, 7)
    dealt = [batches(1000, 32, 3, 7, worker=worker, workers=4) for worker in range(4)]
    for whole, parts in zip(alone, zip(*dealt, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_seed_and_epoch_decide() -> None:
    def first(seed: int, epoch: int) -> list[int]:
        order: list[int] = batches(500, 50, seed, epoch)[0].tolist()
        return order

    assert first(1, 2) == first(1, 2)
    assert len({tuple(first(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_a_data_set_means_its_training_samples() -> None:
    digits = load("digits").limit(train=64, seed=1)
    assert sum(map(len, batches(digits, 10, 0, 0))) == 64
