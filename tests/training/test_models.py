"""What may stand where a training takes a model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from workbench import datasets
from workbench.profiles import profile_model
from workbench.training.models import check_model, make_model, profile_of

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
