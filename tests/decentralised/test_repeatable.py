"""The same bits each time, in any process, with faults, dropout or normalisation."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.decentralised.setups import DIGITS, epochwise, gosgd
from workbench import decentralised
from workbench.decentralised import EverySample, GossipSetup, TrainingError, View, train
from workbench.decentralised.selecting import Batches
from workbench.paths import ROOT
from workbench.runtime import Crash, Restart


def digest(how: str, seed: int = 3, threads: int | None = None) -> str:
    """Hash of all weights and rows of a run with a crash."""
    common: dict[str, Any] = {"epochs": 4, "patience_s": 1.0, "evaluate_every": 2, "seed": seed}
    of = decentralised.random_regular(4, 3, seed=1)
    setup = epochwise(of, **common) if how == "epochwise" else gosgd(of, 0.5, **common)
    found = train(setup, faults=[Crash(2, 0.7), Restart(2, 1.1)], threads=threads)
    assert found.epochs["restarts"].max() == 1
    whole = hashlib.sha256(found.epochs.write_csv().encode())
    for weights in found.weights:
        whole.update(weights.numpy().tobytes())
    return whole.hexdigest()


@pytest.mark.parametrize("how", ["epochwise", "gosgd"])
def test_another_process_gives_the_same_bits(how: str) -> None:
    here = digest(how)
    assert digest(how) == here != digest(how, seed=4)
    there = subprocess.check_output(
        [sys.executable, "-c", f"from {__name__} import digest; print(digest({how!r}))"],
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "2"},
    )
    assert there.strip() == here


@pytest.mark.parametrize("how", ["epochwise", "gosgd"])
def test_any_number_of_threads_gives_the_same_bits(how: str) -> None:
    assert len({digest(how, threads=threads) for threads in (1, 2, 5)}) == 1


def test_buffers_and_dropout_too() -> None:
    data = DIGITS.limit(train=8, test=4).fitted((3, 32, 32))
    of = epochwise(decentralised.ring(2))
    changes = {**vars(of), "dataset": data, "shards": [range(4), range(4, 8)], "epochs": 2}
    for model in ("resnet20_cifar", "mobilenet_v2_cifar"):
        setup = GossipSetup(**{**changes, "model": model})
        one, again = train(setup, threads=1), train(setup, threads=3)
        assert one.epochs.equals(again.epochs)
        assert all(a.equal(b) for a, b in zip(one.weights, again.weights, strict=True))


class Fickle(torch.nn.Module):
    """Draws at random for samples that a first step does not have, learning or evaluating."""

    drawing = True

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(784, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(x.flatten(1))
        return (
            torch.nn.functional.dropout(out, training=True)
            if len(x) > 2 and self.training is self.drawing
            else out
        )


class FickleEvaluated(Fickle):
    drawing = False


@pytest.mark.parametrize("model", [Fickle, FickleEvaluated])
@pytest.mark.parametrize("threads", [1, 3])
def test_promised_model_that_draws_after_its_first_step_is_refused(
    threads: int, model: type[Fickle]
) -> None:
    setup = replace(epochwise(decentralised.ring(3)), model=model)
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


class Counting(torch.nn.Module):
    """Depends on how many steps all nodes have taken."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(784, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(x.flatten(1)) * (1 + next(COUNTED) % 7)
        return out


def test_model_of_ones_own_runs_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for threads in (1, 3):
        setup = replace(epochwise(decentralised.ring(3)), model=Counting)
        monkeypatch.setattr(f"{__name__}.COUNTED", itertools.count())
        found.append(train(setup, threads=threads))
    assert found[0].epochs.equals(found[1].epochs)
    assert all(a.equal(b) for a, b in zip(found[0].weights, found[1].weights, strict=True))
