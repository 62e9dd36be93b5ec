"""Runs an operator so that its results are written where they belong.

Most operators of PyTorch have a form that writes into given tensors. A convolution has none, but
one that adds to what is there. What has neither is run as it is, and copied: its results then
exist twice for a moment, and what PyTorch allocates for that is not in the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from workbench.graphs.graph import Operator
from workbench.graphs.optimiser.convolutions import Form, convolve, convolve_into, fits
from workbench.graphs.recorder import returned, tensors_in

_aten = torch.ops.aten

Run = Callable[[], object]


def writing(
    operator: Operator,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    results: Sequence[Tensor],
    spans: Sequence[Tensor],
) -> Run:
    """A call that writes an operator's results; arguments and results are tensors in place.

    `spans` are, flat, the memory from where a result's begins to its last number: where that is
    more than a result shows, it may be read through other views.
    """
    function = operator.function
    if function is convolve:
        return partial(convolve_into, results[0], *args, **kwargs)
    is_torchs = isinstance(function, torch._ops.OpOverload)
    if is_torchs and function._schema.is_mutable:  # writes into what it reads
        return partial(function, *args, **kwargs)
    dense = all(result.numel() == span.numel() for result, span in zip(results, spans, strict=True))
    direct = _direct(function, args, kwargs, results) if is_torchs and dense else None
    return direct or partial(
        copying, partial(_counting, function, args, kwargs), results if dense else spans
    )


def _counting(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return returned(function, (args, kwargs), function(*args, **kwargs))


def _direct(
    function: Any, args: Sequence[Any], kwargs: dict[str, Any], results: Sequence[Tensor]
) -> Run | None:
    """A call of a form of PyTorch's function that writes into given tensors."""
    packet = function._overloadpacket
    if packet is _aten.native_batch_norm and args[5] and not args[0].is_contiguous():
        return None  # PyTorch 2.13's form that writes adds up means onto what is there
    if packet is _aten.linalg_qr:
        return None  # its form that writes takes results in one storage for the same memory
    if packet is _aten.convolution and fits(args[0], args[1]) and not args[6]:
        image, weight, bias, stride, padding, dilation, _, _, groups = args
        way = Form(stride, padding, dilation, groups)
        return partial(convolve_into, results[0], image, weight, bias, way)
    form = writing_form(function)
    if form is None:
        return None
    writing_function, names = form
    return partial(writing_function, *args, **kwargs, **dict(zip(names, results, strict=True)))


def copying(compute: Callable[[], Any], into: Sequence[Tensor]) -> None:
    """Compute, and copy what comes of it."""
    for made, place in zip(tensors_in(compute()), into, strict=True):
        place.copy_(made if made.shape == place.shape else _span(made, len(place)))


def _span(tensor: Tensor, count: int) -> Tensor:
    """Numbers of a tensor's memory, `count` of them, up to its last one, flat."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.storage_offset() + last + 1 - count
    return torch.as_strided(tensor, (count,), (1,), start)


def is_writing(function: Any) -> bool:
    """Whether a function writes its results into given tensors."""
    is_torchs = isinstance(function, torch._ops.OpOverload)
    if not is_torchs or function._schema.is_mutable:
        return is_torchs
    return writing_form(function) is not None


@cache
def writing_form(function: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The overload of a function that writes into what it is given, and what that is called."""
    if function is _aten.relu.default:
        return _relu, ("out",)
    wanted = [(argument.name, str(argument.type)) for argument in function._schema.arguments]
    packet = function._overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name)
        taken = [
            (argument.name, str(argument.type))
            for argument in other._schema.arguments
            if not argument.is_out
        ]
        names = tuple(argument.name for argument in other._schema.arguments if argument.is_out)
        if names and taken == wanted and _has_kernel(other):
            return other, names
    return None


def _relu(tensor: Tensor, *, out: Tensor) -> Tensor:
    _aten.clamp_min.out(tensor, 0, out=out)
    return out


def _has_kernel(function: Any) -> bool:
    """Whether it writes itself: others that PyTorch offers call the plain form, and copy."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CPU"))
