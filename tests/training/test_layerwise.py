"""A model computed part by part has the whole model's gradient, wherever it is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from workbench import datasets, training
from workbench.training.layerwise import LayerwiseModel
from workbench.training.passes import Batches
from workbench.training.trained import DivergedError

DIGITS = datasets.load("digits").limit(train=16, test=8)


def model(name: str, shape: tuple[int, ...]) -> tuple[LayerwiseModel, Batches]:
    flat = training.flatten(training.initialise(name, seed=0), shape)
    pieces = training.cut(flat.module, shape)
    batch = training.batches(DIGITS, 16, seed=0, epoch=0)
    return LayerwiseModel(flat, pieces), Batches(DIGITS.fitted(shape), batch, flat.parameters)


def gradient(
    model: LayerwiseModel, batches: Batches, cuts: list[int], seed: tuple[int, ...] | None = None
) -> tuple[float, torch.Tensor]:
    """Loss and gradient of the batch, in spans of layers between `cuts`."""
    bounds = [0, *cuts, len(model.pieces)]
    spans = [(low + 1, high) for low, high in pairwise(bounds)]
    model.begin()
    features = batches(0)
    for first, last in spans:
        features = model.forward(first, last, features, seed)
    loss, behind = model.loss(features, "here")
    for first, last in reversed(spans):
        behind = model.backward(first, last, behind)
    return loss, model.flat.gradients.clone()


@pytest.mark.parametrize("cuts", [[], [1], [2, 3], [1, 2, 3, 4]])
def test_gradient_is_that_of_the_whole_model(cuts: list[int]) -> None:
    with training.fixed_threads():
        own, batches = model("lenet5", (1, 28, 28))
        loss, found = gradient(own, batches, cuts)
        samples = batches(0)
        whole = training.gradient_step(own.flat, samples.tensors[0], samples.labels)
        assert loss == whole
        assert torch.equal(found, own.flat.gradients)


def test_what_layers_draw_is_the_seeds() -> None:
    with training.fixed_threads():
        own, batches = model("alexnet_small", (3, 32, 32))
        one, again, other = (gradient(own, batches, [3], (seed,))[1] for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_loss_that_is_not_finite_is_an_error_that_says_where() -> None:
    own, batches = model("lenet5", (1, 28, 28))
    own.flat.parameters.fill_(torch.nan)
    with pytest.raises(DivergedError, match="nan here"):
        gradient(own, batches, [])
