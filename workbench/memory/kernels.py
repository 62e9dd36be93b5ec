"""Forms of PyTorch's operators that write their results into given tensors."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


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
