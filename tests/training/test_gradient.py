"""Gradients are PyTorch's own, written where they belong."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.training.modules import Awkward, Dropping
from workbench.training import flatten, gradient_step, seeded

X, Y = torch.randn(8, 5, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 4


def test_are_those_of_autograd_bit_for_bit() -> None:
    plain = Awkward()
    flat = flatten(copy.deepcopy(plain), (5,))
    loss = F.cross_entropy(plain(X), Y)
    loss.backward()  # type: ignore[no-untyped-call]
    before = flat.parameters.clone()
    assert gradient_step(flat, X, Y) == loss.item()
    trained = {name: one for name, one in plain.named_parameters() if one.requires_grad}
    assert flat.layout.tensor_slices.keys() == trained.keys()
    for name, where in flat.layout.tensor_slices.items():
        gradient = trained[name].grad
        expected = torch.zeros_like(trained[name]) if gradient is None else gradient
        assert torch.equal(flat.gradients[where], expected.reshape(-1)), name
    assert torch.equal(flat.parameters, before)
    assert not bool(flat.gradients[flat.layout.tensor_slices["idle.weight"]].any())


def test_overwrite_what_was_there_and_survive_zero_grad() -> None:
    flat = flatten(nn.Linear(5, 4), (5,))
    gradient_step(flat, X, Y)
    first = flat.gradients.clone()
    flat.gradients.fill_(9)
    flat.module.zero_grad(set_to_none=True)
    gradient_step(flat, X, Y)
    assert torch.equal(flat.gradients, first)


def test_read_only_arrays_and_tensors_are_alike(recwarn: pytest.WarningsRecorder) -> None:
    flat = flatten(nn.Linear(5, 4), (5,))
    x, y = X.numpy().copy(), Y.numpy().copy()
    x.flags.writeable = y.flags.writeable = False
    assert gradient_step(flat, x, y) == gradient_step(flat, X, Y)
    assert not recwarn.list


def test_a_module_that_is_frozen_has_none() -> None:
    module = nn.Linear(5, 4)
    flat = flatten(module, (5,))
    module.requires_grad_(False)
    assert gradient_step(flat, X, Y) > 0
    assert not bool(flat.gradients.any())
    module.requires_grad_(True)
    gradient_step(flat, X, Y)
    assert bool(flat.gradients.any())


def test_inside_no_grad_too() -> None:
    flat = flatten(nn.Linear(5, 4), (5,))
    with torch.no_grad():
        gradient_step(flat, X, Y)
    assert bool(flat.gradients.any())


class TestDropout:
    def test_is_drawn_by_seed(self) -> None:
        flat = flatten(Dropping(), (5,))
        losses = [gradient_step(flat, X, Y, seed=seed) for seed in (3, 4, 3)]
        assert losses[0] == losses[2] != losses[1]

    def test_leaves_the_global_generator_where_it_was(self) -> None:
        flat = flatten(Dropping(), (5,))
        with seeded(1):
            before = torch.get_rng_state()
            gradient_step(flat, X, Y, seed=3)
            assert torch.equal(torch.get_rng_state(), before)
            gradient_step(flat, X, Y)
            assert not torch.equal(torch.get_rng_state(), before)
