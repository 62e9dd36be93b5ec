"""Models by name, as modules or as functions that make them: first weights, profile, fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.training.modules import Dropping
from workbench import datasets, dynacomm
from workbench.clusters import Link
from workbench.profiles import profile_model
from workbench.training.models import check_model, initialise, make_model, profile_of
from workbench.utils.checks import UserError

DIGITS = datasets.load("digits")


def own() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def test_a_module_is_copied_with_its_weights_and_a_function_draws_them() -> None:
    module = own()
    kept = weights(module).clone()
    for seed in (3, 4):
        made = make_model(module, DIGITS, seed)
        assert made is not module
        assert torch.equal(weights(made), kept)
    drawn = weights(make_model(own, DIGITS, 3))
    assert torch.equal(drawn, weights(make_model(own, DIGITS, 3)))
    assert not torch.equal(drawn, weights(make_model(own, DIGITS, 4)))


def test_a_setup_keeps_a_copy_of_its_module() -> None:
    module = own()
    setup = dynacomm.Setup(module, DIGITS, Link(1e6))
    kept = weights(module).clone()
    nn.init.zeros_(module.requires_grad_(False)[1].weight)  # type: ignore[index]
    assert torch.equal(setup.flat().parameters, kept)


def test_a_class_that_needs_arguments_is_refused() -> None:
    with pytest.raises(UserError, match=r"called without arguments: missing .* 'in_features'; giv"):
        make_model(nn.Linear, DIGITS, 0)  # type: ignore[arg-type]


def test_a_module_that_cannot_be_copied_is_refused() -> None:
    module = own()
    module.seen = module(torch.zeros(1, 64))
    with pytest.raises(UserError, match="Sequential cannot be copied for each node"):
        dynacomm.Setup(module, DIGITS, Link(1e6))


def test_one_of_the_zoo_needs_classes_and_tokens_that_it_knows() -> None:
    with pytest.raises(UserError, match="digits has no classes, and a model of the zoo gets"):
        check_model("lenet5", replace(DIGITS.fitted((1, 28, 28)), classes=()), 0)
    x, y = np.full((2, 128), 30522), np.zeros(2, np.int64)
    with pytest.raises(UserError, match="with numbers from 30522 to 30522, as texts has: index"):
        check_model("bert_tiny", datasets.Dataset("texts", x, y, x, y, ("a", "b")), 0)


def test_one_of_the_zoo_gets_an_output_for_each_class_and_ones_own_may_have_more() -> None:
    last = [*make_model("lenet5", DIGITS, 0).parameters()][-1]
    assert len(last) == len(DIGITS.classes)
    check_model(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 11)), DIGITS, 0)


def test_a_profile_is_of_the_images_it_learns_from() -> None:
    assert profile_of(own, DIGITS, 0) == profile_model(own(), (1, 8, 8))
    assert profile_of("lenet5", DIGITS, 0) is profile_model("lenet5")


def test_another_number_type_is_taken_where_samples_are_converted() -> None:
    wide = own().double()
    check_model(wide, DIGITS, 0, in_own_type=True)
    with pytest.raises(ValueError, match="does not take samples of float32"):
        check_model(wide, DIGITS, 0)


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("model", ["lenet5", "resnet20_cifar", Dropping])
def test_the_seed_decides(model: str | type[nn.Module]) -> None:
    first, again, other = (weights(initialise(model, seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
