"""Which epochs are there when servers or workers stop early."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from tests.dynacomm.trainings import LENET, replicas
from workbench import training
from workbench.dynacomm.training import Setup, Trained, TrainingError, train
from workbench.runtime import Crash, DeadlockError, Run, simulate
from workbench.training import shell
from workbench.training.data_parallel import ModelParts


def first_epochs(setup: Setup, count: int) -> Trained[torch.Tensor]:
    return train(replace(setup, epochs=count))


def test_worker_iteration_and_epoch_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training.gradient_step
    steps = 0

    def breaks(*args: Any, **kwargs: Any) -> float:
        nonlocal steps
        steps += 1
        return whole(*args, **kwargs) if steps < 16 else math.nan

    # Two workers of three iterations an epoch: the 16th step is worker1's of iteration 8.
    monkeypatch.setattr("workbench.training.data_parallel.gradient_step", breaks)
    setup = replace(LENET, workers=2, epochs=5)
    with pytest.raises(TrainingError, match="for worker1 in iteration 8, epoch 3; ") as raised:
        train(setup, threads=1)
    monkeypatch.undo()
    left, whole_run = raised.value.trained, first_epochs(setup, 2)
    assert left.epochs.equals(whole_run.epochs)
    assert torch.equal(left.weights, whole_run.weights)
    assert raised.value.run is left.run
    assert left.run.ended == "failed"


def test_a_last_step_that_diverges_is_no_epoch() -> None:
    built = replace(LENET, epochs=1).programs()
    epochs = built.epochs
    epochs.observe(1.0, 0, replicas(built)[0].step_of(iteration=5, loss=1.0))
    nan = torch.full_like(epochs.weights, math.nan)
    with pytest.raises(ArithmeticError, match="nan over all samples at the end of epoch 1"):
        epochs.observe(1.0, 1, ModelParts([(slice(0, len(nan)), nan)]))
    assert len(epochs) == 0


@pytest.mark.parametrize("servers", [1, 2])
def test_a_deadlock_leaves_the_epochs_that_are_done(
    monkeypatch: pytest.MonkeyPatch, servers: int
) -> None:
    setup = replace(LENET, epochs=5, workers=2, servers=servers)
    whole = first_epochs(setup, 2)
    crash = Crash("worker1", whole.run.end_s * 1.1)  # which `train` refuses

    def crashing(*args: Any, **named: Any) -> Run:
        return simulate(*args, **{**named, "faults": (crash,)})

    monkeypatch.setattr(shell, "simulate", crashing)
    with pytest.raises(TrainingError, match="deadlock: nothing is on its way") as raised:
        train(setup)
    assert "2 of 5 epochs were done" in str(raised.value)
    assert raised.value.trained.epochs.equals(whole.epochs)
    assert torch.equal(raised.value.trained.weights, whole.weights)
    assert isinstance(raised.value.__cause__, DeadlockError)
    assert raised.value.run.ended == "deadlock"


def test_with_no_epoch_done_there_are_the_first_weights() -> None:
    whole = train(replace(LENET, epochs=1))
    with pytest.raises(TrainingError, match="0 of 2 epochs were done") as raised:
        train(replace(LENET, sgd=training.Sgd(1e30)))
    assert raised.value.trained.epochs.is_empty()
    assert raised.value.trained.epochs.columns == whole.epochs.columns
    assert torch.equal(raised.value.trained.weights, LENET.programs().epochs.weights)


def test_epochs_are_evaluated_as_they_end() -> None:
    """So each can be seen while training goes on, and none costs virtual time."""
    built = replace(LENET, epochs=3, servers=2).programs()
    epochs = built.epochs
    seen: list[tuple[float, int]] = []

    def observe(at_s: float, node: int, value: Any) -> None:
        built.observe(at_s, node, value)
        if isinstance(value, ModelParts):
            seen.append((at_s, len(epochs)))

    cluster = replace(LENET, servers=2).cluster
    run = simulate(cluster, built.programs, observer=observe)
    assert [count for _, count in seen] == [0, 1, 1, 2, 2, 3]
    assert all(one[0] <= two[0] for one, two in pairwise(seen))
    assert epochs.frame["at_s"].to_list() == [at_s for at_s, _ in seen[1::2]]
    assert run.end_s == train(replace(LENET, epochs=3, servers=2)).run.end_s
