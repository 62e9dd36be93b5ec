"""Traces a module: runs a copy of it once and keeps its graph. Imports PyTorch when it does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from workbench.graphs.operator_graph import OperatorGraph
from workbench.utils.checks import UserError, check_name, check_whole, choose
from workbench.zoo import MODELS, build

if TYPE_CHECKING:
    import torch

    from workbench.graphs.functional import Loss
    from workbench.graphs.graph import Recording

By = Literal["graph", "modules"]
Shapes = tuple[tuple[int, ...], ...]

# Batch normalisation in training refuses a single sample on a 1x1 map.
BATCH = 2


def trace(
    model: str | torch.nn.Module,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | None = None,
    batch_size: int = 1,
    training: bool = False,
    *,
    input_dtype: str = "float32",
    loss: Loss | None = None,
    target_shape: Sequence[int] | Sequence[Sequence[int]] | None = None,
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
        one a sample, for a score of each of several classes; else the sum.
    target_shape, target_dtype
        Of what a loss of one's own compares with, as for inputs: ``()`` and ``"int64"`` for a class
        of each sample. Targets come after the inputs where the graph is run.
    """
    shapes = input_shapes(model, input_shape)
    check_whole("batch_size", batch_size, 1)
    if target_shape is not None and (loss is None or not training):
        raise UserError(
            f"target_shape is {target_shape}; it is for training with a loss of one's own"
        )

    from workbench.graphs.functional import trace_inference, trace_training

    name = model if isinstance(model, str) else type(model).__name__
    module = build(model, "meta") if isinstance(model, str) else model
    inputs = make_inputs(shapes, batch_size, input_dtype, "meta")
    if training:
        wanted = _shapes("target_shape", target_shape) if target_shape is not None else ()
        kind = target_dtype
        if loss is None:
            wanted, kind = ((),), "int64"
        targets = make_inputs(wanted, batch_size, kind, "meta")
        recording = trace_training(name, module, inputs, targets, loss)
    else:
        recording = trace_inference(name, module, inputs)
    with_weights = partial(_initialised, model) if isinstance(model, str) else lambda: module
    return OperatorGraph(**{**vars(recording), "name": name, "module": with_weights})


def follow(
    model: str | torch.nn.Module,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | None = None,
    *,
    input_dtype: str = "float32",
    by: By = "graph",
    backward: bool = False,
    unfrozen: bool = False,
) -> Recording:
    """Follow a model as it runs in training mode on a batch of `BATCH` samples, for its layers.

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
    unfrozen
        Whether to follow it as if no parameter were frozen.

    Raises `UntraceableError` if the module asks for numbers, and ValueError if an input does not
    fit; the message says at which layer.
    """
    shapes = input_shapes(model, input_shape)
    check_by(by)

    from workbench.graphs.recording import meta_copy, real_copy, record, unfreeze
    from workbench.training.repeatable import seeded

    device = "meta" if by == "graph" else "cpu"
    name = model if isinstance(model, str) else type(model).__name__
    module = build(model, device) if isinstance(model, str) else model
    copied = meta_copy(name, module) if by == "graph" else real_copy(name, module, device)
    if unfrozen:
        unfreeze(copied)
    with seeded(0):  # a real run takes the same way each time
        inputs = make_inputs(shapes, BATCH, input_dtype, device)
        return record(name, copied, inputs, by_modules=by == "modules", backward=backward)


def check_by(by: str) -> None:
    """Refuse a way of finding layers that does not exist."""
    check_name("way of finding layers", by, ("graph", "modules"))


def input_shapes(
    model: str | torch.nn.Module, input_shape: Sequence[int] | Sequence[Sequence[int]] | None
) -> Shapes:
    """Shapes of all inputs of one sample, checked; the zoo knows those of its models."""
    if isinstance(model, str):
        known = choose("model", model, MODELS)
        input_shape = known.input_shape if input_shape is None else input_shape
    elif input_shape is None:
        raise UserError(
            f"input_shape is missing: {type(model).__name__} does not tell the shape of its "
            "input. Give that of one sample, without the batch: input_shape=(3, 224, 224)"
        )
    return _shapes("input_shape", input_shape)


def _shapes(name: str, given: Sequence[int] | Sequence[Sequence[int]]) -> Shapes:
    several = [tuple(part) for part in given if isinstance(part, Sequence)]
    sizes = tuple(size for size in given if not isinstance(size, Sequence))
    shapes = tuple(several) or (sizes,)
    for shape in shapes:
        if not all(isinstance(size, int) and size > 0 for size in shape):
            raise UserError(f"{name} {given} is not made of positive whole numbers")
    return shapes


def make_inputs(
    shapes: Shapes, batch_size: int, dtype: str, device: str
) -> tuple[torch.Tensor, ...]:
    """Input tensors of a batch: normal noise, zeros for integers."""
    import torch

    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise UserError(f"unknown input_dtype {dtype!r}; PyTorch's names are right: 'float32'")
    make = torch.randn if kind.is_floating_point or kind.is_complex else torch.zeros
    return tuple(make((batch_size, *shape), dtype=kind, device=device) for shape in shapes)


def _initialised(model: str) -> torch.nn.Module:
    """A model of the zoo with the same weights each time, so that runs can be compared."""
    from workbench.training.repeatable import FIRST_WEIGHTS, seeded

    with seeded(0, FIRST_WEIGHTS):
        return build(model, "cpu")
