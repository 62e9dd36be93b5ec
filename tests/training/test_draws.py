"""Which models draw at random in a step, found without a trace."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from workbench import training
from workbench.datasets import Dataset
from workbench.training.draws import DrawsError, Steps, draws_at_random

X, Y = np.ones((2, 3), np.float32), np.array([0, 1])
IMAGES = X.reshape(2, 3, 1, 1)
DATA = Dataset("ones", IMAGES, Y, IMAGES, Y, ("a", "b"))


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


def test_a_step_in_which_the_generator_moved_is_looked_at_again() -> None:
    noisy = Steps(
        training.flatten(Noisy(lambda: torch.rand(1)), (3, 1, 1)), DATA, "pi", in_order=False
    )
    noisy.step(np.array([0, 1]), seed=0)
    with pytest.raises(DrawsError, match="pi's model draws from PyTorch's global generator"):
        noisy.check()
    flat, same = (
        training.flatten(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)), (3, 1, 1)) for _ in range(2)
    )
    same.parameters.copy_(flat.parameters)
    quiet = Steps(flat, DATA, "pi", in_order=False)
    assert quiet.step(np.array([0, 1]), seed=0) == training.gradient_step(same, IMAGES, Y)
    assert torch.equal(flat.gradients, same.gradients)
    quiet.suspect = np.array([1])  # as if somebody else had drawn meanwhile
    quiet.check()
    assert quiet.suspect is None


def test_threads_that_ask_for_the_global_state_do_not_wait_for_each_other() -> None:
    script = """
import gc, os, sys, threading, time
import torch
from workbench.training.repeatable import global_state
global_state()
gc.freeze()
sys.setswitchinterval(1e-6)
gc.callbacks.append(lambda phase, info: time.sleep(0))  # lets other threads run
gc.set_threshold(1)
def ask():
    for _ in range(1000):
        global_state()
threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
for one in threads: one.start()
for one in threads: one.join(30)
sys.stdout.write(str([one.is_alive() for one in threads]))
sys.stdout.flush()
os._exit(0)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.stdout == "[False, False]", ran.stderr
