"""Several replicas' gradients in one pass are those of one after the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.training.modules import CLASSES, Dropping
from workbench.training import FlatModel, Sgd, batched_gradients, flatten, gradient_step, initialise

SHAPE = (1, 28, 28)


def replicas(count: int) -> list[FlatModel]:
    """In double precision, so that no ReLU and no maximum hangs on a last bit."""
    return [
        flatten(initialise("lenet5", seed).double(), SHAPE, input_dtype="float64")
        for seed in range(count)
    ]


def batches(count: int, size: int = 6) -> tuple[list[Any], list[Any]]:
    drawn = torch.Generator().manual_seed(1)
    xs = torch.randn(count, size, *SHAPE, generator=drawn, dtype=torch.float64)
    ys = torch.randint(0, 10, (count, size), generator=drawn)
    return list(xs), list(ys)


@pytest.mark.parametrize("count", [1, 4])
def test_same_gradients_and_losses(count: int) -> None:
    flats, (xs, ys) = replicas(count), batches(count)
    expected = []
    for flat, x, y in zip(flats, xs, ys, strict=True):
        loss = gradient_step(flat, x, y)
        expected.append((loss, flat.gradients.clone()))
        flat.gradients.fill_(7.0)
    losses = batched_gradients(flats, xs, ys)
    for flat, found, (loss, gradients) in zip(flats, losses, expected, strict=True):
        assert found == pytest.approx(loss, abs=1e-12)
        assert torch.allclose(flat.gradients, gradients, atol=1e-12)


def smooth() -> nn.Module:
    """Mean pooling and tanh: without maxima and corners, rounding stays rounding."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 10),
    )


def test_same_weights_after_steps_in_single_precision() -> None:
    """As trainings run. LeNet-5's maxima may go to another of two pixels that are nearly equal."""
    sgd, weights = Sgd(0.05, momentum=0.9), []
    for batched in (False, True):
        flats = [flatten(initialise(smooth, seed), SHAPE) for seed in range(3)]
        first = [flat.parameters.clone() for flat in flats]
        velocities = [sgd.start(flat.parameters) for flat in flats]
        drawn = torch.Generator().manual_seed(1)
        for _ in range(8):
            xs = list(torch.randn(3, 16, *SHAPE, generator=drawn))
            ys = list(torch.randint(0, 10, (3, 16), generator=drawn))
            if batched:
                batched_gradients(flats, xs, ys)
            for flat, velocity, x, y in zip(flats, velocities, xs, ys, strict=True):
                if not batched:
                    gradient_step(flat, x, y)
                sgd.step(flat.parameters, flat.gradients, velocity)
        weights.append([flat.parameters for flat in flats])
        assert all(
            (flat.parameters - old).abs().max() > 0.01
            for flat, old in zip(flats, first, strict=True)
        )
    for one, other in zip(*weights, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-5)


def test_frozen_parameters_have_no_gradient() -> None:
    (flat,), (xs, ys) = replicas(1), batches(1)
    next(flat.module.parameters()).requires_grad_(False)
    gradient_step(flat, xs[0], ys[0])
    expected = flat.gradients.clone()
    batched_gradients([flat], xs, ys)
    assert torch.allclose(flat.gradients, expected, atol=1e-12)


def test_what_cannot_step_as_one_is_refused() -> None:
    flats, (xs, ys) = replicas(2), batches(2)
    with pytest.raises(ValueError, match="2 replicas, 1 batches"):
        batched_gradients(flats, xs[:1], ys)
    with pytest.raises(ValueError, match=r"\[6, 5\] samples"):
        batched_gradients(flats, [xs[0], xs[1][:5]], [ys[0], ys[1][:5]])
    other = flatten(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), SHAPE)
    with pytest.raises(ValueError, match="different models"):
        batched_gradients([flats[0], other], xs, ys)
    dropping = flatten(Dropping(), (5,))
    with pytest.raises(ValueError, match="dropout"):
        batched_gradients([dropping], [torch.zeros(3, 5)], [torch.zeros(3).long() % CLASSES])
