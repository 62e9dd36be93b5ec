"""Traces a module: runs a copy of it once and keeps its graph. Imports PyTorch when it does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from workbench.graphs.graph import OperatorGraph
from workbench.graphs.inputs import (
    Input,
    Inputs,
    InputShape,
    inputs_of,
    make_inputs,
    read_inputs,
)
from workbench.utils.checks import UserError, check_name, check_whole
from workbench.zoo import build

if TYPE_CHECKING:
    import torch

    from workbench.graphs.functional import Loss

By = Literal["graph", "modules"]

# Batch normalisation in training refuses a single sample on a 1x1 map.
BATCH = 2


def trace(
    model: str | torch.nn.Module,
    input_shape: InputShape | None = None,
    batch_size: int = 1,
    training: bool = False,
    *,
    input_dtype: str | None = None,
    loss: Loss | None = None,
    target_shape: InputShape | None = None,
    target_dtype: str = "float32",
) -> OperatorGraph:
    """Trace a model as a graph of operators in which nothing is written in place.

    >>> from workbench import graphs
    >>> graph = graphs.trace("lenet5", batch_size=4, training=True)
    >>> graph.nodes.filter(kind="operator")["phase"].unique().sort().to_list()
    ['backward', 'forward', 'update']

    Parameters
    ----------
    model, input_shape, input_dtype
        As for `follow`, whose errors it raises.
    training
        False: inference, in evaluation mode. True: a step of SGD, with loss, gradients and the
        update of the parameters; it returns the loss and the new parameters.
    loss
        Called with what the model returns and with targets. By default cross entropy with classes,
        one a sample, or one a position of a text, for a score of each class; else the sum.
    target_shape, target_dtype
        Of what a loss of one's own compares with, as for inputs: ``()`` and ``"int64"`` for a class
        of each sample. Targets come after the inputs where the graph is run.
    """
    inputs = inputs_of(model, input_shape, input_dtype)
    check_whole("batch_size", batch_size, 1)
    if target_shape is not None and (loss is None or not training):
        raise UserError(
            f"target_shape is {target_shape}; it is for training with a loss of one's own"
        )

    from workbench.graphs.functional import default_target, trace_functional
    from workbench.graphs.recording import as_compiled

    name = model if isinstance(model, str) else type(model).__name__
    module = build(model, "meta") if isinstance(model, str) else model
    given, names = make_inputs(inputs, batch_size, "meta"), [one.name for one in inputs]

    def traced() -> OperatorGraph:
        wanted: Inputs = ()
        if target_shape is not None:
            wanted = read_inputs("target_shape", target_shape, target_dtype)
        elif training and loss is None:
            wanted = (Input(default_target(name, module, given, names), "int64"),)
        targets = make_inputs(wanted, batch_size, "meta")
        return trace_functional(
            name, module, given, names=names, training=training, targets=targets, loss=loss
        )

    graph = as_compiled(traced)
    with_weights = partial(_initialised, model) if isinstance(model, str) else lambda: module
    return replace(graph, name=name, module=with_weights)


def follow(
    model: str | torch.nn.Module,
    input_shape: InputShape | None = None,
    *,
    input_dtype: str | None = None,
    by: By = "graph",
    backward: bool = False,
    unfrozen: bool = False,
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

    Raises `UntraceableError` if the module asks for numbers, and ValueError if an input does not
    fit; the message says at which layer.
    """
    inputs = inputs_of(model, input_shape, input_dtype)
    check_by(by)

    from workbench.graphs.recording import as_compiled, meta_copy, real_copy, record, unfreeze
    from workbench.training.repeatable import seeded

    device = "meta" if by == "graph" else "cpu"
    name = model if isinstance(model, str) else type(model).__name__
    module = build(model, device) if isinstance(model, str) else model
    copied = meta_copy(name, module) if by == "graph" else real_copy(name, module, device)
    if unfrozen:
        unfreeze(copied)
    with seeded(0):  # a real run takes the same way each time
        given, names = make_inputs(inputs, BATCH, device), [one.name for one in inputs]
        by_modules = by == "modules"
        return as_compiled(
            lambda: record(
                name, copied, given, names=names, by_modules=by_modules, backward=backward
            )
        )


def check_by(by: str) -> None:
    """Refuse a way of finding layers that does not exist."""
    check_name("way of finding layers", by, ("graph", "modules"))


def _initialised(model: str) -> torch.nn.Module:
    """A model of the zoo with the same weights each time, so that runs can be compared."""
    from workbench.training.repeatable import FIRST_WEIGHTS, seeded

    with seeded(0, FIRST_WEIGHTS):
        return build(model, "cpu")
