"""First weights by seed, for models of the zoo, for functions and for modules."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.training.modules import CLASSES, Awkward, Dropping
from workbench.names import UnknownNameError
from workbench.training import initialise


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
