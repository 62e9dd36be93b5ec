"""Traces a module: runs a copy of it once and keeps its graph. Imports PyTorch when it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from workbench.graphs.inputs import input_shapes, make_inputs
from workbench.names import check_name
from workbench.zoo import build

if TYPE_CHECKING:
    import torch

    from workbench.graphs.graph import OperatorGraph

By = Literal["graph", "modules"]

# Batch normalisation in training refuses a single sample on a 1x1 map.
BATCH = 2


def trace(
    model: str | torch.nn.Module,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | None = None,
    *,
    input_dtype: str = "float32",
    by: By = "graph",
    backward: bool = False,
) -> OperatorGraph:
    """Trace a model in training mode on a batch of `BATCH` samples.

    Parameters
    ----------
    model
        Name in `workbench.zoo.MODELS`, or a module, which is not touched.
    input_shape
        Of one sample, without the batch; a sequence of shapes for several inputs. May be left
        out for a model of the zoo.
    input_dtype
        PyTorch's name of the inputs' type; ``"int64"`` for tokens.
    by
        ``"graph"``: on meta tensors, shapes only. ``"modules"``: for a module whose control flow
        depends on data; it is run for real on random numbers, and each module with parameters of
        its own is a layer, in the order of first calls.
    backward
        Whether to run the backward pass, too, and count its FLOPs.

    Raises
    ------
    UntraceableError
        The module asks for numbers; a `ValueError`.
    ValueError
        No `input_shape` for a module, one that does not fit (the message says at which layer),
        or a module without parameters.
    workbench.names.UnknownNameError
        No such model in the zoo.
    """
    shapes = input_shapes(model, input_shape)
    check_by(by)

    from workbench.graphs.copies import meta_copy, real_copy
    from workbench.graphs.recording import record

    device = "meta" if by == "graph" else "cpu"
    name = model if isinstance(model, str) else type(model).__name__
    module = build(model, device) if isinstance(model, str) else model
    copied = meta_copy(name, module) if by == "graph" else real_copy(name, module, device)
    inputs = make_inputs(shapes, BATCH, input_dtype, device)
    return record(name, copied, inputs, by_modules=by == "modules", backward=backward)


def check_by(by: str) -> None:
    """Refuse a way of finding layers that does not exist."""
    check_name("way of finding layers", by, ("graph", "modules"))
