"""The model of a training: named in the zoo, one's own module, or a function that makes it."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.datasets.dataset import IGNORED, arrays_of, check_dataset
from workbench.profiles import profile_model
from workbench.training.evaluation import applied, as_tensor, number_type
from workbench.training.flat_model import copied
from workbench.training.objective import (
    CLASSES,
    Objective,
    Outputs,
    check_classes,
    cross_entropy,
    output_tensor,
)
from workbench.training.repeatable import FIRST_WEIGHTS, seeded
from workbench.utils.checks import UserError, check_whole, choose
from workbench.zoo import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor

    from workbench.datasets import Dataset
    from workbench.profiles import ModelProfile
    from workbench.profiles.inputs import Input

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
    _check_call(factory, options)
    with seeded(seed, FIRST_WEIGHTS):
        made = factory(**options)
    if not isinstance(made, nn.Module):
        raise UserError(f"{factory!r} makes no torch.nn.Module but {type(made).__name__}")
    return made


def _check_call(factory: Callable[..., object], options: dict[str, object]) -> None:
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        named = f"with {', '.join(options)} alone" if options else "without arguments"
        raise UserError(
            f"model is {factory!r}, which is called {named}: {error}; give a function that needs "
            "no more, such as lambda: torch.nn.Linear(64, 10)"
        ) from None
    except ValueError:  # of a function without a signature, as some of C are
        return


def _check_kind(model: object) -> Model:
    if not (isinstance(model, str) or callable(model)):  # as modules are
        raise UserError(
            f"model is {model!r}; give the name of one in the zoo, a torch.nn.Module, or "
            "a function that makes one"
        )
    return model


def make_model(
    model: Model, dataset: Dataset, seed: int, outputs: Outputs | None = None
) -> torch.nn.Module:
    """Return the model with its first weights, a new one each time.

    A module is copied with the weights that it has. Those of a name or a function are drawn from
    the seed; a model of the zoo gets as many outputs as the data set has classes.

    A hook lets one's own return a tensor, however it packs its outputs, so that it can be cut into
    layers as well; see `objective.output_tensor`.
    """
    from torch import nn

    if isinstance(model, str):
        made = initialise(model, seed, classes=len(dataset.classes))
    else:
        made = copied(model) if isinstance(model, nn.Module) else initialise(model, seed)
    if outputs is not None or not isinstance(model, str):
        made.register_forward_hook(OutputHook(outputs or output_tensor))
    return made


@dataclass(frozen=True)
class OutputHook:
    """Lets a module return what is compared with labels alone."""

    outputs: Outputs

    def __call__(self, module: object, given: object, returned: Any) -> Tensor:
        """What the module returns instead."""
        import torch

        kind = type(returned).__name__
        try:
            chosen = self.outputs(returned)
        except (AttributeError, LookupError, TypeError) as error:
            raise UserError(
                f"outputs fails on the {kind} that the model returns: {type(error).__name__}: "
                f"{error}"
            ) from error
        if not isinstance(chosen, torch.Tensor):
            raise UserError(
                f"outputs makes {type(chosen).__name__} of the {kind} that the model returns; give "
                "a function that makes one tensor"
            )
        return chosen


def inputs_in_type(module: torch.nn.Module, dataset: Dataset) -> tuple[Input, ...]:
    """What the module is given for a sample, with floats in the module's number type."""
    own = str(number_type(module)).removeprefix("torch.")
    inputs = dataset.inputs
    return tuple(replace(x, dtype=own) if "float" in x.dtype else x for x in inputs)


def profile_of(
    model: Model, dataset: Dataset, seed: int, outputs: Outputs | None = None
) -> ModelProfile:
    """Profile the model: one of the zoo as it is stored, any other for the data set's samples."""
    if isinstance(model, str):
        return profile_model(model)
    return profile_model(make_model(model, dataset, seed, outputs), dataset.inputs)


def check_model(
    model: object,
    dataset: object,
    seed: int,
    objective: Objective = CLASSES,
    outputs: Outputs | None = None,
    *,
    in_own_type: bool = False,
) -> None:
    """Refuse a model that cannot learn, or not from a data set; one's own is tried on samples.

    With `in_own_type` floats are converted to the model's number type.
    """
    if isinstance(model, str):
        named = choose("model", model, MODELS)
        dataset = check_dataset(dataset, named.name, named.input_shape, named.input_dtype)
        if not dataset.classes:
            raise UserError(
                f"{dataset.name} has no classes, and a model of the zoo gets an output for each: "
                f"give it classes, or as model lambda: zoo.MODELS[{model!r}].factory(classes=1)"
            )
        if objective is CLASSES and outputs is None and named.input_dtype == "float32":
            return
    model, dataset = _check_kind(model), check_dataset(dataset)
    from workbench.profiles.copies import check_has_parameters

    module = make_model(model, dataset, seed, outputs)
    name = model if isinstance(model, str) else type(module).__name__
    check_has_parameters(name, module)
    dtype = number_type(module) if in_own_type else None
    module.eval()
    for x in (dataset.x_test, dataset.x_train):
        _outputs_of(module, dataset, seed, x[_rows_to_try(x)], dtype)
    rows = _labelled(dataset.y_train)[:2]  # batch normalisation refuses a single one
    module.train(len(rows) > 1)
    before = {key: weight._version for key, weight in module.named_parameters()}
    scores = _outputs_of(module, dataset, seed, dataset.x_train[rows], dtype, learns=True)
    for key, weight in module.named_parameters():
        if weight._version != before[key]:
            raise UserError(
                f"the forward of {name} changes its parameter {key!r}, which other nodes would not "
                "see: keep it as it is (an embedding without max_norm), or make it a buffer"
            )
    labels = as_tensor(dataset.y_train[rows], scores.device)
    loss = objective.value(scores, labels)
    if objective.loss is cross_entropy:
        for part in (dataset.y_train, dataset.y_test):
            check_classes(part, scores.shape[-1])
    objective.each(scores.detach(), labels)
    _check_gradient(name, module, loss)


def _check_gradient(name: str, module: torch.nn.Module, loss: Tensor) -> None:
    if not math.isfinite(loss.item()):
        raise UserError(
            f"the loss of {name} is {loss.item()} before anything is learnt: see what the model "
            "gives for the first samples, and the loss for that"
        )
    if not loss.requires_grad:
        raise UserError(f"the loss of {name} has no gradient: compute it by PyTorch's functions")
    loss.backward()  # type: ignore[no-untyped-call]
    trained = {key: weight for key, weight in module.named_parameters() if weight.requires_grad}
    idle = [key for key, weight in trained.items() if weight.grad is None]
    if idle:
        several = f"{', '.join(idle[:3])}{', ...' if len(idle) > 3 else ''}"
        raise UserError(
            f"the loss of {name} does not depend on its parameters {several}, which would be sent "
            "and never learn; use them, remove them, or freeze them: requires_grad_(False)"
        )


def _rows_to_try(x: Any) -> Any:
    """Rows with the least and the greatest of each input of whole numbers, and the first row."""
    rows = {0}
    for array in arrays_of(x):
        if array.dtype.kind in "iu":
            rows |= {int(at) // array[0].size for at in (array.argmin(), array.argmax())}
    return np.array(sorted(rows))


def _labelled(y: Any) -> Any:
    """Rows with a label that counts."""
    if y.ndim == 1 or y.dtype.kind == "f":
        return np.arange(len(y))
    return np.flatnonzero((y != IGNORED).reshape(len(y), -1).any(1))


def _outputs_of(
    module: torch.nn.Module,
    dataset: Dataset,
    seed: int,
    x: Any,
    dtype: torch.dtype | None,
    *,
    learns: bool = False,
) -> Tensor:
    """Outputs for some samples, if the module takes them."""
    import torch

    device = next(module.parameters()).device
    try:
        with torch.set_grad_enabled(learns), seeded(seed):
            returned = applied(module, x, device, dtype)
    except UserError:
        raise
    except Exception as error:
        ranges = [f"from {a.min()} to {a.max()}" for a in arrays_of(x) if a.dtype.kind in "iu"]
        numbers = f" with numbers {', '.join(ranges)}" if ranges else ""
        raise UserError(
            f"the model does not take samples of {', '.join(map(str, dataset.inputs))}{numbers}, "
            f"as {dataset.name} has: {error}"
        ) from error
    return output_tensor(returned)
