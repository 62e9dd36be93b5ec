"""What stops training early costs no epoch that was done, and tells why."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from workbench.dynacomm.training.epochs import Epochs

from tests.dynacomm.training.trainings import LENET
from workbench import training
from workbench.dynacomm.training import Setup, TrainingError, build, progress_text, train
from workbench.dynacomm.training import train as module
from workbench.dynacomm.training.learning import ServerStore, WorkerReplica
from workbench.runtime import Crash, DeadlockError, ProgramError, Run, simulate


def crashing(crash: Crash) -> Callable[..., Run]:
    """Simulates, with what `train` refuses."""
    return lambda *given, **named: simulate(*given, **{**named, "faults": (crash,)})


def first_epochs(setup: Setup, count: int) -> module.Trained:
    return train(replace(setup, epochs=count))


def test_a_learning_rate_that_diverges_is_told() -> None:
    setup = replace(LENET, epochs=9, workers=2, sgd=training.Sgd(1e3, momentum=0.9))
    with pytest.raises(TrainingError) as raised:
        train(setup)
    told = str(raised.value)
    assert "training diverged: the loss is" in told
    assert "a smaller learning rate than 1000," in told
    assert "Sgd(learning_rate=...)" in told
    assert "\n" not in told
    done = len(raised.value.trained.epochs)
    assert f"({done} of 9 epochs" in told
    assert isinstance(raised.value.__cause__, ArithmeticError)
    for row in raised.value.trained.epochs["loss"]:
        assert math.isfinite(row)


def test_worker_iteration_and_epoch_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training.gradient_step
    steps = 0

    def breaks(*args: Any, **kwargs: Any) -> float:
        nonlocal steps
        steps += 1
        return whole(*args, **kwargs) if steps < 17 else math.nan

    # Two workers of three iterations an epoch, behind a step that tells whether the model draws:
    # the 17th is worker1's of iteration 8.
    monkeypatch.setattr("workbench.training.draws.gradient_step", breaks)
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
    built = build(replace(LENET, epochs=1))
    epochs = Epochs(built.flat, LENET.dataset, built.replicas, servers=1)
    built.replicas[0].buffers = training.get_buffers(built.replicas[0].flat.module)
    nan = torch.full_like(built.flat.parameters, math.nan)
    with pytest.raises(ArithmeticError, match="nan over all samples at the end of epoch 1"):
        epochs.take([(slice(0, len(nan)), nan)], 1.0)
    assert len(epochs) == 0


@pytest.mark.parametrize("servers", [1, 2])
def test_a_deadlock_leaves_the_epochs_that_are_done(
    monkeypatch: pytest.MonkeyPatch, servers: int
) -> None:
    setup = replace(LENET, epochs=5, workers=2, servers=servers)
    whole = first_epochs(setup, 2)
    crash = Crash("worker1", whole.run.end_s * 1.1)
    monkeypatch.setattr(module, "simulate", crashing(crash))
    with pytest.raises(TrainingError, match="deadlock: nothing is on its way") as raised:
        train(setup)
    assert "2 of 5 epochs were done" in str(raised.value)
    assert raised.value.trained.epochs.equals(whole.epochs)
    assert torch.equal(raised.value.trained.weights, whole.weights)
    assert isinstance(raised.value.__cause__, DeadlockError)
    assert raised.value.run.ended == "deadlock"


def test_a_worker_that_fails_leaves_the_epochs_that_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learn = WorkerReplica.learn

    def fails(self: WorkerReplica, iteration: int) -> None:
        if iteration == 7:
            raise MemoryError("no room")
        learn(self, iteration)

    monkeypatch.setattr(WorkerReplica, "learn", fails)
    with pytest.raises(TrainingError, match=r"program of worker0 .*MemoryError: no room") as raised:
        train(replace(LENET, epochs=3))
    assert raised.value.trained.epochs["epoch"].to_list() == [1]
    assert isinstance(raised.value.__cause__, MemoryError)
    assert not isinstance(raised.value, ProgramError)


def test_with_no_epoch_done_there_are_the_first_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(replace(LENET, epochs=1))
    monkeypatch.setattr(module, "simulate", crashing(Crash(0, 0.01)))
    with pytest.raises(TrainingError, match="0 of 2 epochs were done") as raised:
        train(LENET)
    assert raised.value.trained.epochs.is_empty()
    assert raised.value.trained.epochs.columns == whole.epochs.columns
    assert torch.equal(raised.value.trained.weights, build(LENET).flat.parameters)


def test_epochs_are_evaluated_as_they_end() -> None:
    """So each can be seen while training goes on, and none costs virtual time."""
    built = build(replace(LENET, epochs=3, servers=2))
    epochs = Epochs(built.flat, LENET.dataset, built.replicas, servers=2)
    seen: list[tuple[float, int]] = []

    def ended(pieces: Any, at_s: float) -> None:
        epochs.take(pieces, at_s)
        seen.append((at_s, len(epochs)))

    for store in built.stores:
        store.epoch_ended = ended
    run = simulate(replace(LENET, servers=2).cluster, built.programs)
    assert [count for _, count in seen] == [0, 1, 1, 2, 2, 3]
    assert all(one[0] <= two[0] for one, two in pairwise(seen))
    assert epochs.frame["at_s"].to_list() == [at_s for at_s, _ in seen[1::2]]
    assert run.end_s == train(replace(LENET, epochs=3, servers=2)).run.end_s


def test_a_server_hands_over_nothing_but_its_own_parts() -> None:
    built = build(replace(LENET, epochs=2, servers=3))
    given: list[list[int]] = []
    for store in built.stores:

        def ended(pieces: Any, at_s: float, store: ServerStore = store) -> None:
            assert [where for where, _ in pieces] == list(store.own)
            given.append([len(values) for _, values in pieces])

        store.epoch_ended = ended
    simulate(replace(LENET, servers=3).cluster, built.programs)
    assert len(given) == 6
    assert sum(map(sum, given[:3])) == len(built.flat.parameters)


def test_progress_tells_epochs_percent_time_and_loss() -> None:
    setup = replace(LENET, epochs=2, workers=2)
    built = build(setup)
    epochs = Epochs(built.flat, setup.dataset, built.replicas, setup.servers)
    text = progress_text(built, epochs)
    assert text(0.0) == "0 of 2 epochs, 0 %, 0.0 virtual seconds"
    said: list[str] = []
    for store in built.stores:
        store.epoch_ended = epochs.take
    simulate(setup.cluster, built.programs, progress=lambda now_s, _: said.append(text(now_s)))
    losses = [replica.losses[-1] for replica in built.replicas]
    loss, end_s = sum(losses) / 2, epochs.frame["at_s"][-1]
    after = epochs.frame["loss"][-1]
    assert said[-1] == (
        f"2 of 2 epochs, 100 %, {end_s:,.1f} virtual seconds, loss {loss:.3f} in iteration 6, "
        f"{after:.3f} over all samples after epoch 2"
    )


def test_progress_true_shows_just_that(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Kept:
        def __call__(self, text: str) -> None:
            said.append(text)

        def close(self, text: str | None = None) -> None:
            said.append(f"last: {text}")

    monkeypatch.setattr(module, "Line", Kept)
    shown, plain = train(LENET, progress=True), train(LENET)
    assert torch.equal(shown.weights, plain.weights)
    assert "2 of 2 epochs, 100 %" in said[-2]
    assert said[-1] == f"last: {said[-2]}"
