"""Models by name, as modules or as functions that make them: first weights, profile, fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.training.modules import CLASSES, Awkward, Dropping
from workbench import datasets
from workbench.names import UnknownNameError
from workbench.profiles import profile_model
from workbench.training.models import check_model, initialise, make_model, profile_of

DIGITS = datasets.load("digits")


def own() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def test_a_module_is_copied_and_drawn_anew() -> None:
    module = own()
    first, again, made = (make_model(model, DIGITS, 3) for model in (module, module, own))
    assert first is not module is not again
    for weights in zip(*(one.parameters() for one in (first, again, made)), strict=True):
        assert torch.equal(weights[0], weights[1])
        assert torch.equal(weights[0], weights[2])


def test_one_of_the_zoo_gets_an_output_for_each_class() -> None:
    last = [*make_model("lenet5", DIGITS, 0).parameters()][-1]
    assert len(last) == len(DIGITS.classes)


def test_a_profile_is_of_the_images_it_learns_from() -> None:
    assert profile_of(own, DIGITS, 0) == profile_model(own(), (1, 8, 8))
    assert profile_of("lenet5", DIGITS, 0) is profile_model("lenet5")


def test_another_number_type_is_taken_where_samples_are_converted() -> None:
    wide = own().double()
    check_model(wide, DIGITS, 0, in_own_type=True)
    with pytest.raises(ValueError, match="does not take samples of shape"):
        check_model(wide, DIGITS, 0)


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("model", ["lenet5", "resnet20_cifar", Dropping])
def test_the_seed_decides(model: str | type[nn.Module]) -> None:
    first, again, other = (weights(initialise(model, seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_global_generator_stays() -> None:
    before = torch.get_rng_state()
    initialise("lenet5", 1)
    assert torch.equal(torch.get_rng_state(), before)


def test_options_reach_the_model() -> None:
    model = initialise("lenet5", 1, classes=3)
    assert model(torch.zeros(1, 1, 28, 28)).shape == (1, 3)


def test_a_module_draws_its_weights_anew_in_place() -> None:
    module = Dropping()
    assert initialise(module, 9) is module
    first = weights(module).clone()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    assert torch.equal(weights(initialise(module, 9)), first)
    assert torch.equal(weights(initialise(Dropping(), 9)), first)


def test_a_module_that_cannot_is_refused_whole() -> None:
    module = Awkward()
    before = weights(module).clone()
    with pytest.raises(ValueError, match=r"Awkward.*no reset_parameters.*function that makes"):
        initialise(module, 1)
    assert torch.equal(weights(module), before)
    assert initialise(Awkward, 1)(torch.zeros(2, 5)).shape == (2, CLASSES)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="lenet5"):
        initialise("lenet", 1)
    with pytest.raises(ValueError, match="are for a model yet to be made"):
        initialise(nn.Linear(2, 2), 1, classes=3)
    with pytest.raises(ValueError, match=r"makes no torch\.nn\.Module but dict"):
        initialise(dict, 1)  # type: ignore[arg-type]
