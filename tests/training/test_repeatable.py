"""The same seed gives the same bits: twice, in another process, with other threads around."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from workbench import datasets, training
from workbench.utils.files import ROOT


def small() -> nn.Sequential:
    """Convolutions, batch normalisation and dropout: all that could differ."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(16 * 6 * 6, 10),
    )


def trained_hash(seed: int, threads: int = 1) -> str:
    """Train briefly; hash losses, weights and evaluation."""
    data = datasets.load("digits").limit(train=512, seed=seed)
    digest = hashlib.sha256()
    with training.fixed_threads(threads):
        flat = training.flatten(training.initialise(small, seed), data.input_shape)
        sgd = training.Sgd(0.05, momentum=0.9, weight_decay=1e-4)
        velocity = sgd.start(flat.parameters)
        for step, batch in enumerate(training.batches(data, 64, seed, 0)):
            x, y = data.x_train[batch], data.y_train[batch]
            loss = training.gradient_step(flat, x, y, seed=seed + step)
            sgd.step(flat.parameters, flat.gradients, velocity)
            digest.update(repr(loss).encode())
        result = training.evaluate(flat.module, data.x_test, data.y_test)
    digest.update(flat.parameters.numpy().tobytes())
    digest.update(repr(result).encode())
    return digest.hexdigest()


def test_another_process_gives_the_same_bits() -> None:
    torch.manual_seed(12345)  # what others do to the global generator changes nothing
    here = [trained_hash(3, threads) for threads in (1, 2)]
    assert [trained_hash(3, threads) for threads in (1, 2)] == here
    assert trained_hash(4) not in here
    code = f"from {__name__} import trained_hash; print(trained_hash(3, 1), trained_hash(3, 2))"
    there = subprocess.check_output(
        [sys.executable, "-c", code],
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "3", "PYTHONHASHSEED": "3"},
    )
    assert there.split() == here


def test_nothing_global_changes() -> None:
    torch.manual_seed(7)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    trained_hash(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_threads_and_generator_come_back_after_an_error() -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()

    def broken() -> None:
        with training.fixed_threads(threads + 1), training.seeded(5):
            torch.rand(1)
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match="not 0"), training.fixed_threads(0):
        pass


def test_generators_differ_by_seed_and_purpose() -> None:
    keys = ((0,), (1,), (0, 0), (0, 1), (0, 0, 0), (0, 1, 0), (2**32 - 1, 5))
    drawn = [torch.rand(4, generator=training.generator(*key)).tolist() for key in keys]
    assert len(set(map(tuple, drawn))) == len(drawn)
    assert torch.rand(4, generator=training.generator(0, 1)).tolist() == drawn[3]
