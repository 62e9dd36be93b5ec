"""Whether a model's steps must stay in order, since they share something with other steps.

Dropout draws from PyTorch's default generator, which is global: such steps can be seeded one at a
time, but not run beside each other. The same holds for a module whose code reaches beyond itself.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.training.evaluation import Evaluation, evaluate
from workbench.training.gradient import gradient_step
from workbench.training.isolated import is_isolated
from workbench.training.repeatable import global_state

if TYPE_CHECKING:
    from workbench.datasets import Dataset
    from workbench.training.flat_model import FlatModel


class DrawsError(RuntimeError):
    """A model that drew nothing at random in a first step does so in a later one."""


def must_stay_in_order(flat: FlatModel, dataset: Dataset) -> bool:
    """Whether steps of the model's replicas must be taken one after the other."""
    if flat.device.type != "cpu" or not is_isolated(flat.module):
        return True
    return draws_at_random(flat, dataset.x_train[:2], dataset.y_train[:2])


def draws_at_random(flat: FlatModel, x: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether learning from these samples, or evaluation, draws from a global generator.

    PyTorch's, NumPy's or Python's. Tried on a copy of the model; the generators' states are
    restored. Where that fails, the model counts as drawing.
    """
    import torch

    before = _states()
    try:
        replica = flat.replica()
        gradient_step(replica, x, y)
        evaluate(replica.module, x, y)
        after = _states()
        return not torch.equal(before[0], after[0]) or pickle.dumps(before[1:]) != pickle.dumps(
            after[1:]
        )
    except Exception:
        return True  # and the training itself will say what is wrong
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        random.setstate(before[2])


def _states() -> tuple[Any, Any, Any]:
    return global_state(), np.random.get_state(), random.getstate()  # noqa: NPY002


@dataclass(eq=False)
class Steps:
    """Gradient steps of a replica, in order or on any thread, beside others.

    Beside others its model must draw nothing; if PyTorch's generator moves meanwhile, by this model
    or by other code, `check` finds out which, in the main thread.

    `name` is for errors, `in_order` from `must_stay_in_order`; `suspect` holds the training
    samples of a step, or of an evaluation, in which the generator moved.
    """

    flat: FlatModel
    dataset: Dataset
    name: str
    in_order: bool
    suspect: NDArray[np.int64] | None = None

    def step(self, batch: NDArray[np.int64], seed: int) -> float:
        """As `gradient_step`; the seed is for a model that draws."""
        if self.in_order:
            return gradient_step(self.flat, *self._samples(batch), seed=seed)
        with self._watching(batch):
            return gradient_step(self.flat, *self._samples(batch))

    def evaluate(self) -> Evaluation:
        """Evaluate the model on the test samples."""
        watching = self._watching(np.arange(min(len(self.dataset.y_train), 256)))
        with nullcontext() if self.in_order else watching:
            return evaluate(self.flat.module, self.dataset.x_test, self.dataset.y_test)

    def check(self) -> None:
        """Refuse a model that has drawn, so that its steps depend on what runs beside them.

        Raises `DrawsError`.
        """
        if self.suspect is None:
            return
        if draws_at_random(self.flat, *self._samples(self.suspect)):
            raise DrawsError(
                f"{self.name}'s model draws from PyTorch's global generator in some of its steps, "
                "but did not in a first one, so that they would not repeat. Let it draw in each "
                "step of training, or from a torch.Generator that it holds itself"
            )
        self.suspect = None

    def _samples(self, batch: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.dataset.x_train[batch], self.dataset.y_train[batch]

    @contextmanager
    def _watching(self, batch: NDArray[np.int64]) -> Iterator[None]:
        import torch

        before = global_state()
        yield
        if not torch.equal(before, global_state()):
            self.suspect = batch
