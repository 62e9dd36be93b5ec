"""Models and hooks that draw at random or count steps never run beside each other."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from tests.decentralised.setups import epochwise
from workbench import decentralised
from workbench.decentralised import EverySample, TrainingError, View, train
from workbench.decentralised.selecting import Batches


class Fickle(torch.nn.Sequential):
    """Draws at random for samples that a first step does not have, learning or evaluating."""

    drawing = True

    def __init__(self) -> None:
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        draws = len(x) > 2 and self.training is self.drawing
        return torch.nn.functional.dropout(out, training=True) if draws else out


class FickleEvaluated(Fickle):
    drawing = False


@pytest.mark.parametrize(("threads", "model"), [(1, Fickle), (3, Fickle), (3, FickleEvaluated)])
def test_promised_model_that_draws_after_its_first_step_is_refused(
    threads: int, model: type[Fickle]
) -> None:
    setup = replace(epochwise(decentralised.ring(3)), model=model, parallel=False)
    assert len(train(setup, threads=threads).epochs) == 9
    with pytest.raises(TrainingError, match="drew from the global generator of PyTorch"):
        train(replace(setup, parallel=True), threads=threads)


@pytest.mark.parametrize("threads", [1, 3])
def test_hook_that_draws_beside_parallel_steps_is_refused(threads: int) -> None:
    class Draws(EverySample):
        def step(self, state: None, epoch: int, view: View) -> tuple[None, Batches, float]:
            torch.rand(3)
            return super().step(state, epoch, view)

    setup = epochwise(decentralised.ring(3))
    with pytest.raises(TrainingError, match="or run work in order"):
        train(setup, Draws(3), threads=threads)
    assert len(train(replace(setup, parallel=False), Draws(3), threads=threads).epochs) == 9


COUNTED = itertools.count()


class Counting(torch.nn.Sequential):
    """Depends on how many steps all nodes have taken."""

    def __init__(self) -> None:
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return out * (1 + next(COUNTED) % 7)


def test_model_of_ones_own_runs_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in (1, 3):
        setup = replace(epochwise(decentralised.ring(3)), model=Counting, parallel=None)
        monkeypatch.setattr(f"{__name__}.COUNTED", itertools.count())
        found.append(train(setup, threads=threads))
    assert found[0].epochs.equals(found[1].epochs)
    assert all(a.equal(b) for a, b in zip(found[0].weights, found[1].weights, strict=True))
