"""What each layer of a model costs, from its graph alone: no weights, no compute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.profiles import stored
from workbench.profiles.model_profile import SCHEMA, ModelProfile
from workbench.zoo import MODELS, build

if TYPE_CHECKING:
    import torch

    from workbench.profiles.recorded import Chain

By = Literal["graph", "modules"]

# Two samples, because batch normalisation in training refuses a single one on a 1x1 map.
_BATCH = 2


def profile_model(
    model: str | torch.nn.Module,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | None = None,
    *,
    input_dtype: str = "float32",
    by: By = "graph",
    name: str | None = None,
) -> ModelProfile:
    """Profile a model of the zoo or any module: its chain of layers and what each costs.

    The module is copied to meta tensors and run forward and backward once in training mode;
    see `workbench.profiles.chain` for the rule that makes it a chain. The user's module is not
    touched. Of the zoo's models, at their own input shapes, the outcome is stored
    (`workbench.profiles.stored`).

    FLOPs are those of the operations that ``torch.utils.flop_counter`` counts (convolutions,
    matrix products, attention), two per multiply-add; elementwise work, pooling and look-ups
    count nothing. Backward FLOPs are the gradients by weight and by input; the model's input
    needs none, and frozen parameters need none.

    Parameters
    ----------
    model
        Name in `workbench.zoo.MODELS`, or a module.
    input_shape
        Of one sample, without the batch; a sequence of shapes for several inputs. May be left
        out for a model of the zoo.
    input_dtype
        PyTorch's name of the inputs' type; ``"int64"`` for tokens.
    by
        ``"graph"``: as above. ``"modules"``: for a module whose control flow depends on data; it
        is run for real on random numbers, and each module with parameters of its own is a layer,
        in the order of first calls.
    name
        What to call a user's module; its class's name by default.

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
    if isinstance(model, str):
        return _profile_zoo(model, shapes, input_dtype, by)
    return _profile(name or type(model).__name__, model, shapes, input_dtype, by)


@lru_cache(maxsize=64)
def _profile_zoo(
    name: str, shapes: tuple[tuple[int, ...], ...], input_dtype: str, by: By
) -> ModelProfile:
    known = stored.look_up(name, shapes, input_dtype) if by == "graph" else None
    if known is not None:
        return known.profile
    module = build(name, device="meta" if by == "graph" else None)
    return _profile(name, module, shapes, input_dtype, by)


def _profile(
    name: str,
    module: torch.nn.Module,
    shapes: tuple[tuple[int, ...], ...],
    input_dtype: str,
    by: By,
) -> ModelProfile:
    copied, chain = _recorded(name, module, shapes, input_dtype, by)
    sizes = {n: p.numel() * p.element_size() for n, p in copied.named_parameters()}
    table = pl.DataFrame(
        {
            "layer": chain.layers,
            "param_bytes": [sum(sizes[n] for n in names) for names in chain.parameters],
            "param_tensors": [len(names) for names in chain.parameters],
            "output_bytes": [_per_sample(size) for size in chain.output_bytes],
            "forward_flops": [_per_sample(flops) for flops in chain.forward_flops],
            "backward_flops": [_per_sample(flops) for flops in chain.backward_flops],
        },
        schema=SCHEMA,
    )
    tensor_bytes = tuple(tuple(sizes[n] for n in names) for names in chain.parameters)
    return ModelProfile(name, shapes[0] if len(shapes) == 1 else shapes, table, tensor_bytes)


def moved_bytes(
    model: str | torch.nn.Module,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | None = None,
    *,
    input_dtype: str = "float32",
) -> NDArray[np.int64]:
    """Bytes per sample that each layer's operations read and write on the way forward.

    For machines on which small layers wait for memory rather than for arithmetic. Every operation
    reads the activations that it is given and writes its own; a convolution with a kernel above
    1x1 also writes its input unfolded, a patch per output pixel, and reads that, as one by matrix
    products does. Views move nothing. Parameters are left out: they are read once a batch.

    Parameters
    ----------
    model, input_shape, input_dtype
        As in `profile_model`.

    Returns
    -------
    Array of shape (N,)
        In the order of `profile_model`'s layers; read-only.

    Raises
    ------
    ValueError
        As `profile_model`.
    """
    shapes = input_shapes(model, input_shape)
    if isinstance(model, str):
        return _moved_zoo(model, shapes, input_dtype)
    return _moved(type(model).__name__, model, shapes, input_dtype)


@lru_cache(maxsize=64)
def _moved_zoo(
    name: str, shapes: tuple[tuple[int, ...], ...], input_dtype: str
) -> NDArray[np.int64]:
    known = stored.look_up(name, shapes, input_dtype)
    if known is not None:
        return known.moved_bytes
    return _moved(name, build(name, device="meta"), shapes, input_dtype)


def _moved(
    name: str, module: torch.nn.Module, shapes: tuple[tuple[int, ...], ...], input_dtype: str
) -> NDArray[np.int64]:
    _, chain = _recorded(name, module, shapes, input_dtype, "graph")
    moved = np.array([_per_sample(size) for size in chain.moved_bytes])
    moved.setflags(write=False)
    return moved


def _recorded(
    name: str,
    module: torch.nn.Module,
    shapes: tuple[tuple[int, ...], ...],
    input_dtype: str,
    by: By,
) -> tuple[torch.nn.Module, Chain]:
    """Copy of a module, and the chain that a pass over a batch of it shows."""
    from workbench.profiles import tracing

    tracing.check_has_parameters(name, module)
    device = "meta" if by == "graph" else "cpu"
    copied = (
        tracing.meta_copy(name, module)
        if by == "graph"
        else tracing.real_copy(name, module, device)
    )
    inputs = tracing.make_inputs(shapes, _BATCH, input_dtype, device)
    return copied, tracing.record(name, copied, inputs, by_modules=by == "modules")


def input_shapes(
    model: str | torch.nn.Module, input_shape: Sequence[int] | Sequence[Sequence[int]] | None
) -> tuple[tuple[int, ...], ...]:
    """Shapes of all inputs of one sample, checked; the zoo knows those of its models."""
    if isinstance(model, str):
        from workbench.names import choose

        known = choose("model", model, MODELS)
        input_shape = known.input_shape if input_shape is None else input_shape
    elif input_shape is None:
        raise ValueError(
            f"input_shape is missing: {type(model).__name__} does not tell the shape of its "
            "input. Give that of one sample, without the batch: input_shape=(3, 224, 224)"
        )
    nested = [part for part in input_shape if isinstance(part, Sequence)]
    shapes = tuple(tuple(part) for part in nested) if nested else (_flat(input_shape),)
    for shape in shapes:
        if not all(isinstance(size, int) and size > 0 for size in shape):
            raise ValueError(f"input_shape {input_shape} is not made of positive whole numbers")
    return shapes


def check_by(by: str) -> None:
    """Refuse a way of finding layers that does not exist."""
    from workbench.names import check_name

    check_name("way of finding layers", by, ("graph", "modules"))


def _flat(shape: Sequence[int] | Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(size for size in shape if not isinstance(size, Sequence))


def _per_sample(batch_total: int) -> int:
    return -(-batch_total // _BATCH)
