"""Scans, levels and gradients in plain loops."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

T = TypeVar("T")


def prefixes(
    elements: Sequence[T], combine: Callable[[T, T], T], identity: T, *, exclusive: bool
) -> list[T]:
    """Each element's result, one application after the other."""
    found, so_far = [], identity
    for element in elements:
        after = combine(so_far, element)
        found.append(so_far if exclusive else after)
        so_far = after
    return found


def hillis_steele_as_printed(elements: Sequence[str]) -> list[str]:
    """Alg. 2 of the paper by the letter, k from 1: combine if k >= 2^h."""
    s = ["", *elements]
    for h in range(1, (len(elements) - 1).bit_length() + 1):
        before = list(s)
        for k in range(1, len(elements) + 1):
            if k >= 2**h:
                s[k] = before[k - 2 ** (h - 1)] + before[k]
    return s[1:]


def longest_paths(sources: Sequence[Sequence[int]], costs: Sequence[int]) -> list[int]:
    """By node, the dearest path that ends there, itself included; by plain recursion."""

    def longest(node: int) -> int:
        return costs[node] + max((longest(one) for one in sources[node]), default=0)

    return [longest(node) for node in range(len(sources))]


def autograd_gradients(
    module: nn.Module,
    x: Tensor | Sequence[Tensor],
    y: Tensor,
    loss: Callable[[Any, Tensor], Tensor] | None = None,
) -> tuple[dict[str, Tensor], float]:
    """PyTorch's own gradients, in double precision, of a copy of a module; and the loss."""
    copied = copy.deepcopy(module).double()
    inputs = (x,) if isinstance(x, Tensor) else tuple(x)
    found = copied(*(one.double() if one.is_floating_point() else one for one in inputs))
    y = y.double() if y.is_floating_point() else y
    default = functional.mse_loss if y.is_floating_point() else functional.cross_entropy
    value = (loss or default)(found, y)
    value.backward()  # type: ignore[no-untyped-call]
    named = copied.named_parameters()
    return {name: one.grad for name, one in named if one.grad is not None}, value.item()


def jacobian(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Transposed: a row per number read, a column per number made."""
    found = torch.autograd.functional.jacobian(function, at.detach())  # type: ignore[no-untyped-call]
    assert isinstance(found, Tensor)
    return found.reshape(-1, at.numel()).T
