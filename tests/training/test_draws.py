"""Streams of random numbers, and which models draw at random in a step."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from workbench import datasets, dynacomm, training
from workbench.clusters import Link
from workbench.training.setup import draws_at_random, may_run_in_parallel
from workbench.utils.checks import UserError

X, Y = np.ones((2, 3), np.float32), np.array([0, 1])
DIGITS = datasets.load("digits").limit(train=100, test=20).fitted((1, 28, 28))


class Noisy(nn.Module):
    def __init__(self, noise: Callable[[], object]) -> None:
        super().__init__()
        self.layer, self.noise = nn.Linear(3, 2), noise

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.noise()
        out: torch.Tensor = self.layer(x.flatten(1))
        return out


def test_what_draws_and_what_does_not() -> None:
    for module, drawing in (
        (nn.Linear(3, 2), False),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), False),
        (nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)), True),
    ):
        flat = training.flatten(module, (3,))
        before = flat.parameters.clone(), [one.clone() for one in flat.module.buffers()]
        states = torch.get_rng_state(), random.getstate()
        assert draws_at_random(flat, X, Y) is drawing
        assert torch.equal(torch.get_rng_state(), states[0])
        assert random.getstate() == states[1]
        assert torch.equal(flat.parameters, before[0])
        assert all(a.equal(b) for a, b in zip(flat.module.buffers(), before[1], strict=True))


@pytest.mark.parametrize(
    "noise",
    [lambda: torch.rand(1), random.random, lambda: np.random.rand(1)],  # noqa: NPY002
)
def test_all_global_generators_count(noise: Callable[[], object]) -> None:
    assert draws_at_random(training.flatten(Noisy(noise), (3,)), X, Y)
    assert not draws_at_random(training.flatten(Noisy(int), (3,)), X, Y)


def test_a_step_that_fails_counts_as_drawing() -> None:
    assert draws_at_random(training.flatten(nn.Linear(3, 2), (3,)), X, np.array([0, 9]))


class Late(nn.Module):
    """Draws in its third step of training, which a look at the first does not show."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.steps = nn.Linear(784, 10), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += self.training
        if self.steps == 3:
            random.random()
        out: torch.Tensor = self.layer(x.flatten(1))
        return out


@pytest.mark.parametrize(
    ("model", "parallel", "expected"),
    [
        ("lenet5", None, True),
        ("lenet5", False, False),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), None, False),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), True, True),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.Dropout()), True, False),
    ],
)
def test_steps_run_beside_each_other_if_promised_and_nothing_is_drawn(
    model: Any, parallel: bool | None, expected: bool
) -> None:
    setup = training.Setup(model, DIGITS, parallel=parallel)
    assert may_run_in_parallel(setup, setup.flat()) is expected
    with pytest.raises(UserError, match="parallel is 1; give True, False or None"):
        training.Setup(model, DIGITS, parallel=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [1, 2])
def test_broken_promise_of_a_setup_is_an_error(threads: int) -> None:
    setup = dynacomm.Setup(Late, DIGITS, Link(1e8), workers=2, batch_size=10)
    assert len(dynacomm.train(setup, threads=threads).epochs) == 1
    with pytest.raises(training.TrainingError, match=r"generator of Python .* parallel=False"):
        dynacomm.train(replace(setup, parallel=True), threads=threads)


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
