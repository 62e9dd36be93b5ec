"""A loss that is no number ends the training, and what there was is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from tests.decentralised.setups import Idle, epochwise, gosgd
from workbench import decentralised
from workbench.decentralised import EverySample, GossipSetup, TrainingError, View, train
from workbench.decentralised.selecting import Batches
from workbench.runtime import Crash, Restart
from workbench.training import Sgd

either = pytest.mark.parametrize("made", [epochwise, partial(gosgd, probability=0.5)])


@either
def test_the_node_and_its_step_are_named(made: Callable[..., GossipSetup]) -> None:
    with pytest.raises(TrainingError, match=r"diverged: .* for node\d in its step \d"):
        train(made(decentralised.complete(3), sgd=Sgd(1e38)))


class Poisoning(EverySample):
    """Spoils a model in its second epoch."""

    def step(self, state: None, epoch: int, view: View) -> tuple[None, Batches, float]:
        if epoch == 2:
            view.flat.parameters.fill_(torch.nan)
        return super().step(state, epoch, view)


def test_epochs_until_then_are_kept() -> None:
    setup = epochwise(decentralised.complete(3), epochs=4)
    with pytest.raises(TrainingError, match=r"3 of 12 epochs of all nodes were done") as raised:
        train(setup, Poisoning(setup.seed))
    kept = raised.value.trained
    assert kept.epochs["epoch"].to_list() == [1, 1, 1]
    assert kept.epochs.equals(train(setup).epochs.head(3))
    assert kept.run is raised.value.run
    assert len(kept.weights) == 3


@dataclass(frozen=True)
class Spoiling(Idle):
    """The same without learning."""

    def step(self, state: None, epoch: int, view: View) -> tuple[None, Batches, float]:
        view.flat.parameters.fill_(torch.nan)
        return super().step(state, epoch, view)


def test_an_evaluation_shows_it_too() -> None:
    setup = epochwise(decentralised.complete(2), evaluate_every=1)
    message = r"nan for node\d on the test samples at the end of epoch 1"
    with pytest.raises(TrainingError, match=message):
        train(setup, Spoiling())


@either
def test_nobody_left_is_a_failure(made: Callable[..., GossipSetup]) -> None:
    setup = made(decentralised.ring(2), epochs=5, patience_s=1.0)
    both = [Crash(0, at_s=0.8), Crash(1, at_s=0.8)]  # an epoch takes 0.48 s to learn
    with pytest.raises(TrainingError, match=r"nobody is left: all nodes .*2 of 10 ") as raised:
        train(setup, faults=both)
    assert raised.value.trained.epochs["epoch"].to_list() == [1, 1]
    with pytest.raises(TrainingError, match=r"nobody is left: .*0 of 10 epochs"):
        train(setup, faults=[Crash(0, at_s=0.1), Crash(1, at_s=0.1)])
    assert train(setup, faults=both[:1]).run.ended == "done"
    assert train(setup, faults=[*both, Restart(0, at_s=2.0)]).run.ended == "done"
