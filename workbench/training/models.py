"""The model of a training: named in the zoo, one's own module, or a function that makes it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from workbench.checks import check_whole
from workbench.datasets.checks import check_dataset
from workbench.errors import UserError
from workbench.names import choose
from workbench.profiles import profile_model
from workbench.training.losses import check_outputs
from workbench.training.repeatable import FIRST_WEIGHTS, seeded
from workbench.training.tensors import as_tensor
from workbench.zoo import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from workbench.datasets import Dataset
    from workbench.profiles import ModelProfile

    Model = str | torch.nn.Module | Callable[[], torch.nn.Module]


def initialise(
    model: str | torch.nn.Module | Callable[..., torch.nn.Module], seed: int, **options: Any
) -> torch.nn.Module:
    """Return a model with weights drawn from a seed; the global generator keeps its state.

    Parameters
    ----------
    model
        Name in `workbench.zoo.MODELS`; or a function that makes a module, which is best for one's
        own; or a module, whose parts then draw their weights anew, in place, each as PyTorch
        does by default (``reset_parameters``).
    **options
        For the function that makes the module: ``classes=10``.

    Raises
    ------
    workbench.names.UnknownNameError
        No such model in the zoo.
    ValueError
        No model, no seed, or a part of the module has parameters but no ``reset_parameters``.
    """
    from torch import nn

    seed = check_whole("seed", seed, 0)
    if not (isinstance(model, str) or callable(model)):  # as modules are
        raise UserError(
            f"model is {model!r}; give the name of one in the zoo, a torch.nn.Module, or "
            "a function that makes one"
        )
    with seeded(seed, FIRST_WEIGHTS):
        if isinstance(model, nn.Module):
            _reset(model, options)
            return model
        factory = choose("model", model, MODELS).factory if isinstance(model, str) else model
        made = factory(**options)
    if not isinstance(made, nn.Module):
        raise UserError(f"{factory!r} makes no torch.nn.Module but {type(made).__name__}")
    return made


def _reset(module: torch.nn.Module, options: dict[str, Any]) -> None:
    if options:
        raise UserError(f"options {', '.join(options)} are for a model yet to be made")
    parts = [
        (name or type(module).__name__, part, getattr(part, "reset_parameters", None))
        for name, part in module.named_modules()
    ]
    for name, part, reset in parts:
        if reset is None and any(p is not None for p in part._parameters.values()):
            raise UserError(
                f"{name} ({type(part).__name__}) has parameters but no reset_parameters(), so they "
                "cannot be drawn anew; give the function that makes the module instead of it"
            )
    for _, _, reset in parts:
        if reset is not None:
            reset()


def make_model(model: Model, dataset: Dataset, seed: int) -> torch.nn.Module:
    """Return the model with its first weights, a new one each time.

    One of the zoo gets as many outputs as the data set has classes; a module is copied.
    """
    if isinstance(model, str):
        return initialise(model, seed, classes=len(dataset.classes))
    return initialise(copy.deepcopy(model), seed)


def profile_of(model: Model, dataset: Dataset, seed: int) -> ModelProfile:
    """Profile the model: one of the zoo as it is stored, any other for the data set's images."""
    if isinstance(model, str):
        return profile_model(model)
    return profile_model(make_model(model, dataset, seed), dataset.input_shape)


def check_model(model: object, dataset: object, seed: int, *, in_own_type: bool = False) -> None:
    """Refuse a model that cannot learn from a data set; one's own is tried on a sample.

    With `in_own_type` the samples are converted to the model's number type.
    """
    if isinstance(model, str):
        named = choose("model", model, MODELS)
        check_dataset(dataset, named.name, named.input_shape)
        return
    if not callable(model):  # as modules are
        raise UserError(
            f"model is {model!r}; give the name of one in the zoo, a torch.nn.Module, or "
            "a function that makes one"
        )
    _check_outputs(model, check_dataset(dataset), seed, in_own_type)


def _check_outputs(model: Model, dataset: Dataset, seed: int, in_own_type: bool) -> None:
    import torch

    module = make_model(model, dataset, seed).eval()
    like = next(module.parameters(), torch.empty(0))
    sample = as_tensor(dataset.x_train[:1], like.device)
    try:
        with torch.no_grad(), seeded(seed):
            found = module(sample.to(like.dtype) if in_own_type else sample)
    except Exception as error:
        raise UserError(
            f"the model does not take samples of shape {dataset.input_shape}, as "
            f"{dataset.name} has: {error}"
        ) from error
    outputs = check_outputs(found, torch.zeros(len(sample), dtype=torch.int64)).shape[1]
    if outputs < (classes := len(dataset.classes)):
        raise UserError(
            f"the model has {outputs} outputs, {dataset.name} has {classes} classes; "
            "each class needs an output"
        )
