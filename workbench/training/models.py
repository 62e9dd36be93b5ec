"""The model of a training: named in the zoo, one's own module, or a function that makes it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from workbench.datasets.dataset import check_dataset
from workbench.profiles import profile_model
from workbench.training.evaluation import as_tensor, check_outputs, number_type
from workbench.training.repeatable import FIRST_WEIGHTS, seeded
from workbench.utils.checks import UserError, check_whole, choose
from workbench.zoo import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from workbench.datasets import Dataset
    from workbench.profiles import ModelProfile

    Model = str | torch.nn.Module | Callable[[], torch.nn.Module]


def initialise(
    model: str | Callable[..., torch.nn.Module], seed: int, **options: Any
) -> torch.nn.Module:
    """Return a model with weights drawn from a seed; the global generator keeps its state.

    Parameters
    ----------
    model
        Name in `workbench.zoo.MODELS`; or a function that makes a module.
    **options
        For the function that makes the module: ``classes=10``.

    Raises
    ------
    workbench.utils.checks.UnknownNameError
        No such model in the zoo.
    ValueError
        Neither a name nor a function; a module, which has its weights already; no seed.
    """
    from torch import nn

    seed = check_whole("seed", seed, 0)
    if isinstance(model, nn.Module):
        raise UserError(
            f"this {type(model).__name__} has its weights already; give the function that makes "
            "it, which draws them"
        )
    _check_kind(model)
    factory = choose("model", model, MODELS).factory if isinstance(model, str) else model
    with seeded(seed, FIRST_WEIGHTS):
        made = factory(**options)
    if not isinstance(made, nn.Module):
        raise UserError(f"{factory!r} makes no torch.nn.Module but {type(made).__name__}")
    return made


def _check_kind(model: object) -> Model:
    if not (isinstance(model, str) or callable(model)):  # as modules are
        raise UserError(
            f"model is {model!r}; give the name of one in the zoo, a torch.nn.Module, or "
            "a function that makes one"
        )
    return model


def make_model(model: Model, dataset: Dataset, seed: int) -> torch.nn.Module:
    """Return the model with its first weights, a new one each time.

    A module is copied with the weights that it has. Those of a name or a function are drawn from
    the seed; a model of the zoo gets as many outputs as the data set has classes.
    """
    from torch import nn

    if isinstance(model, nn.Module):
        return copy.deepcopy(model)
    if isinstance(model, str):
        return initialise(model, seed, classes=len(dataset.classes))
    return initialise(model, seed)


def profile_of(model: Model, dataset: Dataset, seed: int) -> ModelProfile:
    """Profile the model: one of the zoo as it is stored, any other for the data set's images."""
    if isinstance(model, str):
        return profile_model(model)
    return profile_model(make_model(model, dataset, seed), dataset.input_shape)


def check_model(model: object, dataset: object, seed: int, *, in_own_type: bool = False) -> None:
    """Refuse a model that cannot learn, or not from a data set; one's own is tried on a sample.

    With `in_own_type` the samples are converted to the model's number type.
    """
    if isinstance(model, str):
        named = choose("model", model, MODELS)
        check_dataset(dataset, named.name, named.input_shape)
        return
    model, dataset = _check_kind(model), check_dataset(dataset)
    import torch

    from workbench.graphs.recording import check_has_parameters

    module = make_model(model, dataset, seed).eval()
    check_has_parameters(type(module).__name__, module)
    sample = as_tensor(dataset.x_train[:1], next(module.parameters()).device)
    try:
        with torch.no_grad(), seeded(seed):
            outputs = module(sample.to(number_type(module)) if in_own_type else sample)
    except Exception as error:
        raise UserError(
            f"the model does not take samples of shape {dataset.input_shape}, as "
            f"{dataset.name} has: {error}"
        ) from error
    count = check_outputs(outputs, torch.zeros(len(sample), dtype=torch.int64)).shape[1]
    if count < (classes := len(dataset.classes)):
        raise UserError(
            f"the model has {count} outputs, {dataset.name} has {classes} classes; "
            "each class needs an output"
        )
