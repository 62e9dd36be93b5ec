"""A worker that computes layer by layer learns what one learns that computes all at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.dynacomm.training.trainings import DIGITS, LENET
from workbench.clusters import Link
from workbench.dynacomm import PLANNERS
from workbench.dynacomm.training import Setup, Trained, TrainingError, train
from workbench.training import Sgd

IMAGES = DIGITS.limit(train=32, test=8).fitted((3, 32, 32))
# with shortcuts that pass a cut, and buffers
RESNET = Setup("resnet20_cifar", IMAGES, Link(20e6, 0.02), workers=2, batch_size=8)
DROPOUT = Setup("alexnet_small", IMAGES, Link(20e6, 0.02), workers=2, batch_size=8, epochs=2)


def trained(setup: Setup, planner: str, *, by_layer: bool) -> Trained[torch.Tensor]:
    return train(replace(setup, by_layer=by_layer), planner, trace=True)


@pytest.mark.parametrize("planner", PLANNERS)
def test_layer_by_layer_gives_the_same_weights_losses_and_times(planner: str) -> None:
    setup = replace(LENET, workers=2)
    at_once = trained(setup, planner, by_layer=False)
    by_layer = trained(setup, planner, by_layer=True)
    assert torch.equal(by_layer.weights, at_once.weights)
    assert by_layer.epochs.equals(at_once.epochs)
    traces = [each.run.trace for each in (by_layer, at_once)]
    assert traces[0] is not None
    assert traces[1] is not None
    assert traces[0].frame.equals(traces[1].frame)


def test_layer_by_layer_gives_the_same_weights_and_buffers_past_shortcuts() -> None:
    at_once = trained(RESNET, "layer_by_layer", by_layer=False)
    by_layer = trained(RESNET, "layer_by_layer", by_layer=True)
    assert torch.equal(by_layer.weights, at_once.weights)
    assert by_layer.epochs.equals(at_once.epochs)  # evaluated with the buffers


def test_what_a_layer_drops_depends_on_no_plan() -> None:
    one, other = (
        trained(DROPOUT, planner, by_layer=True) for planner in ("sequential", "layer_by_layer")
    )
    assert torch.equal(one.weights, other.weights)


def test_diverging_by_layer_says_who_and_when() -> None:
    wild = replace(LENET, sgd=Sgd(1e20), by_layer=True)
    with pytest.raises(TrainingError, match=r"diverged: .*worker0 in iteration 2, epoch 1"):
        train(wild, "layer_by_layer")
