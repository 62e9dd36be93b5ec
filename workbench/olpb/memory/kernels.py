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
from workbench.graphs.running import whole
from workbench.olpb.optimiser.convolutions import convolve, convolve_into, fits

_aten = torch.ops.aten

Run = Callable[[], object]


def writing(
    operator: Operator,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    results: Sequence[Tensor],
    storages: Sequence[Tensor],
) -> Run:
    """A call that writes an operator's results; arguments and results are tensors in place.

    `storages` are, flat, all that the results' memory holds: where that is more than a result
    shows, it may be read through other views.
    """
    if any(one.numel() != result.numel() for one, result in zip(storages, results, strict=True)):
        return partial(_copied, operator.function, args, kwargs, storages)
    if operator.function is convolve:
        return partial(convolve_into, results[0], *args, **kwargs)
    if not isinstance(operator.function, torch._ops.OpOverload):
        return partial(_copied, operator.function, args, kwargs, results)
    if operator.function._schema.is_mutable:  # writes into what it reads
        return partial(operator.function, *args, **kwargs)
    packet = operator.function._overloadpacket
    if packet is _aten.relu:
        return partial(_aten.clamp_min.out, *args, 0, out=results[0])
    if packet is _aten.convolution and fits(args[0], args[1]) and not args[6]:
        return partial(convolve_into, results[0], *args[:6], args[8])
    form = _writing_form(operator.function)
    if form is None:
        return partial(_copied, operator.function, args, kwargs, results)
    function, names = form
    return partial(function, *args, **kwargs, **dict(zip(names, results, strict=True)))


def _copied(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], into: Sequence[Tensor]
) -> None:
    for made, place in zip(tensors_in(function(*args, **kwargs)), into, strict=True):
        place.copy_(made if made.shape == place.shape else whole(made))


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
