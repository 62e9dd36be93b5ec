"""Threads and streams of random numbers; that trainings repeat is in `test_every_system`."""

from __future__ import annotations

import pytest
import torch

from workbench import training


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
