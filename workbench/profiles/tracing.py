"""Follows a model as it runs, for its layers. PyTorch is imported when it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from workbench.profiles.graph import OperatorGraph
from workbench.profiles.inputs import InputShape, inputs_of, make_inputs
from workbench.utils.checks import check_name
from workbench.zoo import build

if TYPE_CHECKING:
    import torch

By = Literal["graph", "modules"]

# Batch normalisation in training refuses a single sample on a 1x1 map.
BATCH = 2


def follow(
    model: str | torch.nn.Module,
    input_shape: InputShape | None = None,
    *,
    input_dtype: str | None = None,
    by: By = "graph",
    backward: bool = False,
    unfrozen: bool = False,
    own_modes: bool = False,
) -> OperatorGraph:
    """Follow a model as it runs in training mode on a batch of `BATCH` samples, for its layers.

    Parameters
    ----------
    model
        Name in `workbench.zoo.MODELS`, or a module, which is not touched.
    input_shape, input_dtype
        What it takes, as `inputs_of` reads it; may be left out for a model of the zoo.
    by
        ``"graph"``: on meta tensors, shapes only. ``"modules"``: for a module whose control flow
        depends on data; it is run for real on random numbers, and each module with parameters of
        its own is a layer, in the order of first calls.
    backward
        Whether to run the backward pass, too, and count its FLOPs.
    unfrozen
        Whether to follow it as if no parameter were frozen.
    own_modes
        Whether to run each part of a module in the mode that it is in.

    Raises `UntraceableError` if the module asks for numbers, and ValueError if an input does not
    fit; the message says at which layer.
    """
    inputs = inputs_of(model, input_shape, input_dtype)
    check_by(by)

    from workbench.profiles.copies import copy_modes, meta_copy, real_copy, unfreeze
    from workbench.profiles.recording import as_compiled, record
    from workbench.training.repeatable import seeded

    device = "meta" if by == "graph" else "cpu"
    name = model if isinstance(model, str) else type(model).__name__
    module = build(model, device) if isinstance(model, str) else model
    copied = meta_copy(name, module) if by == "graph" else real_copy(name, module, device)
    if unfrozen:
        unfreeze(copied)
    if own_modes:
        copy_modes(module, copied)
    with seeded(0):  # a real run takes the same way each time
        tensors, names = make_inputs(inputs, BATCH, device), [item.name for item in inputs]
        by_modules = by == "modules"
        return as_compiled(
            lambda: record(
                name, copied, tensors, names=names, by_modules=by_modules, backward=backward
            )
        )


def check_by(by: str) -> None:
    """Refuse a way of finding layers that does not exist."""
    check_name("way of finding layers", by, ("graph", "modules"))
