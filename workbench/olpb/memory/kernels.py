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
from workbench.graphs.recorder import tensors_in

_aten = torch.ops.aten

Run = Callable[[], object]


def writing(
    operator: Operator, args: Sequence[Any], kwargs: dict[str, Any], results: Sequence[Tensor]
) -> Run:
    """A call that writes an operator's results; arguments and results are tensors in place."""
    packet = operator.function._overloadpacket
    if packet is _aten.relu:
        return partial(_aten.clamp_min.out, *args, 0, out=results[0])
    if packet is _aten.convolution and _adds(args, results[0]):
        return _convolution(args, results[0])
    form = _writing_form(operator.function)
    if form is None:
        return partial(_copied, operator.function, args, kwargs, results)
    function, names = form
    return partial(function, *args, **kwargs, **dict(zip(names, results, strict=True)))


def _copied(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], into: Sequence[Tensor]
) -> None:
    for made, place in zip(tensors_in(function(*args, **kwargs)), into, strict=True):
        place.copy_(made)


def _adds(args: Sequence[Any], result: Tensor) -> bool:
    """Whether oneDNN's convolution can do it: of floats, not transposed."""
    return (
        torch.backends.mkldnn.is_available()
        and result.dtype == torch.float32
        and result.dim() == 4
        and not args[6]
        and result.is_contiguous()
    )


def _convolution(args: Sequence[Any], result: Tensor) -> Run:
    image, weight, bias, stride, padding, dilation, _, _, groups = args
    convolve = torch.ops.mkldnn._convolution_pointwise_
    last = ("add", None, None, [], None)

    def run() -> None:
        result.zero_()
        convolve(result, image, weight, bias, padding, stride, dilation, groups, *last)

    return run


@cache
def _writing_form(function: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The overload of a function that writes into what it is given, and what that is called."""
    wanted = [(one.name, str(one.type)) for one in function._schema.arguments]
    packet = function._overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name)
        taken = [(one.name, str(one.type)) for one in other._schema.arguments if not one.is_out]
        names = tuple(one.name for one in other._schema.arguments if one.is_out)
        if names and taken == wanted and _has_kernel(other):
            return other, names
    return None


def _has_kernel(function: Any) -> bool:
    """Whether it writes itself: others that PyTorch offers call the plain form, and copy."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CPU"))
