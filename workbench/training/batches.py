"""Batches of each worker."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.dataset import Dataset
from workbench.training.repeatable import DRAW, SHUFFLE
from workbench.utils.checks import UserError, check_whole


def batches(
    samples: Dataset | int,
    batch_size: int,
    seed: int,
    epoch: int,
    *,
    worker: int = 0,
    workers: int = 1,
) -> list[NDArray[np.int64]]:
    """Draw one worker's batches of one epoch: arrays of int64, indices of samples.

    All samples are shuffled by seed and epoch and dealt out in rounds of ``workers * batch_size``:
    within a round the first `batch_size` go to worker 0, the next to worker 1, and so on. So the
    workers' batches of one round are together the batch of a single worker with `workers` times
    the size. In an epoch every sample is in exactly one batch of one worker; the last round shares
    out evenly what is left, so that batches may differ by a sample, and some may be empty. All
    workers have equally many batches.

    `samples` is a data set, whose training samples are meant, or their number; epochs and workers
    count from 0.
    """
    if isinstance(samples, Dataset):
        count = len(samples.y_train)
    else:
        count = check_whole("samples, a Dataset or their number,", samples, 0)
    batch_size = check_whole("batch_size", batch_size, 1)
    workers = check_whole("workers", workers, 1)
    seed, epoch = check_whole("seed", seed, 0), check_whole("epoch", epoch, 0)
    if (worker := check_whole("worker", worker, 0)) >= workers:
        raise UserError(f"worker {worker} is not one of 0 to {workers - 1}")
    if count < workers:
        raise UserError(
            f"{workers} workers cannot share {count} samples; each needs at least one. "
            "Use fewer workers or more samples"
        )
    stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, epoch))
    order = np.random.default_rng(stream).permutation(count)
    per_round = batch_size * workers
    rounds, left = divmod(count, per_round)
    whole = order[: rounds * per_round].reshape(rounds, workers, batch_size)
    dealt = list(whole[:, worker])
    if left:
        dealt.append(np.array_split(order[count - left :], workers)[worker])
    return dealt


class Draw:
    """Batches of any size from one worker's samples: pass after pass, each in an order of its own.

    `samples` are their indices; seed, worker and restarts decide the order.
    """

    def __init__(
        self, samples: NDArray[np.int64], seed: int, worker: int, restarts: int = 0
    ) -> None:
        self._samples = samples
        stream = np.random.SeedSequence(seed, spawn_key=(DRAW, worker, restarts))
        self._random = np.random.default_rng(stream)
        self._order = samples[:0]

    def take(self, count: int) -> NDArray[np.int64]:
        """Return the next indices, read-only; a batch may reach into the next pass."""
        while len(self._order) < count:
            another = self._random.permutation(self._samples)
            self._order = np.concatenate([self._order, another])
        batch, self._order = self._order[:count].copy(), self._order[count:]
        batch.flags.writeable = False
        return batch
