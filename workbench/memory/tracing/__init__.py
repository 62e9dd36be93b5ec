"""The graph of inference, or of a step of training, of a model. PyTorch is imported by a trace.

>>> from workbench import memory
>>> graph = memory.trace("lenet5")
>>> [operator.name for operator in graph.operators][:3]
['convolution', 'relu', 'max_pool2d_with_indices']

Nothing in it is written in place, so that a memory plan, not the module's author, decides what is
overwritten. `passes` traces both passes of a module for a loss of the user's own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from workbench.profiles.graph import OperatorGraph
from workbench.profiles.inputs import (
    Input,
    Inputs,
    InputShape,
    inputs_of,
    make_inputs,
    read_inputs,
)
from workbench.utils.checks import UserError, check_truth, check_whole
from workbench.zoo import build

if TYPE_CHECKING:
    import torch

    from workbench.memory.tracing.functional import Loss


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

    >>> from workbench import memory
    >>> graph = memory.trace("lenet5", batch_size=4, training=True)
    >>> graph.nodes.filter(kind="operator")["phase"].unique().sort().to_list()
    ['backward', 'forward', 'update']

    Parameters
    ----------
    model, input_shape, input_dtype
        As for `workbench.profiles.follow`, whose errors it raises.
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
    check_truth("training", training)
    if target_shape is not None and (loss is None or not training):
        raise UserError(
            f"target_shape is {target_shape}; it is for training with a loss of one's own"
        )

    from workbench.memory.tracing.functional import default_target, trace_functional
    from workbench.profiles.recording import as_compiled

    name = model if isinstance(model, str) else type(model).__name__
    module = build(model, "meta") if isinstance(model, str) else model
    tensors, names = make_inputs(inputs, batch_size, "meta"), [item.name for item in inputs]

    def traced() -> OperatorGraph:
        wanted: Inputs = ()
        if target_shape is not None:
            wanted = read_inputs("target_shape", target_shape, target_dtype)
        elif training and loss is None:
            wanted = (Input(default_target(name, module, tensors, names), "int64"),)
        targets = make_inputs(wanted, batch_size, "meta")
        return trace_functional(
            name, module, tensors, names=names, training=training, targets=targets, loss=loss
        )

    graph = as_compiled(traced)
    with_weights = partial(_initialised, model) if isinstance(model, str) else lambda: module
    return replace(graph, name=name, module=with_weights)


def _initialised(model: str) -> torch.nn.Module:
    """A model of the zoo with the same weights each time, so that runs can be compared."""
    from workbench.training.repeatable import FIRST_WEIGHTS, seeded

    with seeded(0, FIRST_WEIGHTS):
        return build(model, "cpu")
