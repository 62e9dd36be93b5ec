"""A model on samples: its loss and metrics, and the gradient of a step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.datasets import IGNORED, NamedArrays
from workbench.datasets.dataset import arrays_of
from workbench.training.flat_model import FlatModel
from workbench.training.objective import CLASSES, Objective, output_tensor
from workbench.training.repeatable import STEP, seeded
from workbench.utils.checks import UserError, check_whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Arrays = NDArray[Any] | Tensor

    Samples = Arrays | NamedArrays
    """A row of each array is a sample."""


def as_tensor(
    samples: NDArray[Any] | Tensor, device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Return an array or tensor as a tensor on a device, floats in a type, if one is given."""
    import torch

    if not isinstance(samples, torch.Tensor):
        # PyTorch has no tensors that cannot be written to, which those of a data set cannot.
        own = samples if samples.flags.writeable else np.array(samples)
        samples = torch.from_numpy(own)
    return samples.to(device, dtype if samples.is_floating_point() else None)


def tensors_of(x: Samples, device: torch.device, dtype: torch.dtype | None = None) -> list[Tensor]:
    """Return each input of a model as `as_tensor` does."""
    return [as_tensor(array, device, dtype) for array in arrays_of(x)]


def applied(
    module: torch.nn.Module, x: Samples, device: torch.device, dtype: torch.dtype | None = None
) -> Any:
    """Return what a module returns for samples; several inputs are given by their names."""
    tensors = tensors_of(x, device, dtype)
    if isinstance(x, NamedArrays):
        return module(**dict(zip(x.arrays, tensors, strict=True)))
    return module(*tensors)


def check_pairs(x: Samples, y: Arrays) -> int:
    """Return the number of samples, if each has its labels."""
    import torch

    for name, value in (("x", x), ("y", y)):
        rows = isinstance(value, np.ndarray | torch.Tensor) and value.ndim
        if not rows and not (name == "x" and isinstance(value, NamedArrays)):
            raise UserError(f"{name} is {value!r}; give an array or tensor, a row for each sample")
    if len(x) != len(y) or not len(x):
        raise UserError(f"{len(x)} samples and {len(y)} labels; one label each, at least one")
    return len(x)


def number_type(module: torch.nn.Module) -> torch.dtype:
    """Type in which a module is given samples: that of its trained parameters."""
    return next(weight.dtype for weight in module.parameters() if weight.requires_grad)


def gradient_step(
    flat: FlatModel,
    x: Samples,
    y: Arrays,
    *,
    objective: Objective = CLASSES,
    seed: int | None = None,
) -> float:
    """Write the gradient of the mean loss over a batch into ``flat.gradients``; return the loss.

    ``flat.gradients`` is overwritten, ``flat.parameters`` unchanged. The module runs in its mode.

    Parameters
    ----------
    x, y
        Samples and labels of the batch.
    objective
        Whose loss it is; cross entropy by default, with int64 labels, one a sample or a position.
    seed
        Of what the module draws at random (dropout); give each step another. With None it draws
        from PyTorch's global generator.
    """
    return accumulate(flat, [(x, y)], objective=objective, seeds=None if seed is None else [seed])


def accumulate(
    flat: FlatModel,
    batches: Sequence[tuple[Samples, Arrays]],
    *,
    objective: Objective = CLASSES,
    seeds: Sequence[int] | None = None,
) -> float:
    """Write the gradient of the mean loss over several batches into ``flat.gradients``.

    Returns that loss. Batches pass through the model one after the other, so that a step needs the
    memory of one of them. Means are over labels, as in `evaluate`: the gradient is that of all
    batches in one, unless the model normalises over a batch, as batch normalisation does; its
    running statistics move with every batch. Everything else is as in `gradient_step`.

    Parameters
    ----------
    batches
        Samples and labels of each.
    seeds
        One for each batch, as the seed of `gradient_step`.
    """
    if not batches:
        raise UserError("there are no batches to accumulate; give at least one")
    if seeds is not None and len(seeds) != len(batches):
        raise UserError(f"there are {len(seeds)} seeds for {len(batches)} batches; give one each")
    for x, y in batches:
        check_pairs(x, y)
    if not isinstance(flat, FlatModel):
        raise UserError(
            f"flat is of type {type(flat).__name__}; give training.flatten(module, input_shape)"
        )
    numbers: list[int | None] = [None] * len(batches)
    if seeds is not None:
        numbers = [check_whole("seed", seed, 0) for seed in seeds]
    flat.check_attached()
    flat.gradients.zero_()
    if len(batches) == 1:
        return _add_gradient(flat, batches[0], objective, numbers[0])
    counts = [counted_labels(y) for _, y in batches]
    whole = sum(counts)
    loss = 0.0 if whole else math.nan
    for batch, count, seed in zip(batches, counts, numbers, strict=True):
        if count:  # a batch without labels has no mean
            loss += _add_gradient(flat, batch, objective, seed, count / whole)
    return loss


def _add_gradient(
    flat: FlatModel,
    batch: tuple[Samples, Arrays],
    objective: Objective,
    seed: int | None,
    weight: float | None = None,
) -> float:
    """Add the gradient of a batch's loss, times a weight if given; return the loss times that."""
    import torch

    x, y = batch
    labels = as_tensor(y, flat.device)
    with nullcontext() if seed is None else seeded(seed, STEP), torch.enable_grad():
        value = objective.value(applied(flat.module, x, flat.device), labels)
        if weight is not None:
            value = value * weight
        if value.requires_grad:
            value.backward()  # type: ignore[no-untyped-call]
        elif any(parameter.requires_grad for parameter in flat.module.parameters()):
            raise UserError("the loss has no gradient: compute it by PyTorch's functions")
    return value.item()


@dataclass(frozen=True)
class Evaluation:
    """Means over labels.

    The loss is not finite where the model's outputs are not. `metrics` are those of the objective:
    for classes and tokens ``top1`` is the fraction of labels that have the highest score, ``top5``
    of those with one of the five highest. Of equal scores that of the lower class counts as the
    higher; outputs that are not numbers count as wrong.
    """

    loss: float
    samples: int
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def top1(self) -> float:
        """Fraction of labels with the highest score."""
        return self.metrics["top1"]

    @property
    def top5(self) -> float:
        """Fraction of labels with one of the five highest scores."""
        return self.metrics["top5"]


def evaluate(
    model: torch.nn.Module,
    x: Samples,
    y: Arrays,
    batch_size: int = 256,
    *,
    objective: Objective = CLASSES,
    dtype: torch.dtype | None = None,
) -> Evaluation:
    """Evaluate a model, in evaluation mode; afterwards every part has its mode back.

    By default it is a classifier, of samples or of positions in them, and labels `y` are int64.
    `batch_size` changes nothing but the rounding. Labels that are ignored count nowhere. Floats of
    samples are converted to `dtype`, if one is given.
    """
    import torch

    count = check_pairs(x, y)
    batch_size = check_whole("batch_size", batch_size, 1)
    if not isinstance(model, torch.nn.Module):
        raise UserError(
            f"model is of type {type(model).__name__}; give a torch.nn.Module, such as "
            "training.initialise(...) returns"
        )
    device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    sums = dict.fromkeys(("loss", *objective.metrics), 0.0)
    counts = dict.fromkeys(sums, 0)

    def add(name: str, total: float, count: int) -> None:
        sums[name] += total
        counts[name] += count

    with evaluating(model), torch.no_grad():
        for start in range(0, count, batch_size):
            part = slice(start, start + batch_size)
            labels = as_tensor(y[part], device)
            returned, counted = applied(model, x[part], device, dtype), counted_labels(labels)
            if counted:
                add("loss", float(objective.value(returned, labels)) * counted, counted)
            for name, values in objective.each(output_tensor(returned), labels).items():
                if values.dim():
                    add(name, float(values.sum()), values.numel())
                elif counted:  # a mean over the labels
                    add(name, float(values) * counted, counted)
    if not counts["loss"]:
        raise UserError(f"no label counts: all are {IGNORED}; give some to evaluate by")
    means = {name: total / max(counts[name], 1) for name, total in sums.items()}
    metrics = {
        name: metric.of_mean(means["loss" if metric.each is None else name])
        for name, metric in objective.metrics.items()
    }
    return Evaluation(means["loss"], count, metrics)


def counted_labels(labels: Arrays) -> int:
    """Labels of a batch: of positions, those that are not ignored; else its samples."""
    if labels.ndim > 1 and "float" not in str(labels.dtype):
        return int((labels != IGNORED).sum())
    return len(labels)


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Set every part of a model to evaluation mode; restore each part's own mode afterwards."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
