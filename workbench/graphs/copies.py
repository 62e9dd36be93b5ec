"""Copies of a module to trace or to run, so that the original is not touched."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


def meta_copy(name: str, module: nn.Module) -> nn.Module:
    """Copy of a module in training mode, with every tensor of it on the meta device."""
    _check_has_parameters(name, module)
    memo: dict[int, Any] = {}
    for part in module.modules():
        for value in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(value, Tensor):
                memo[id(value)] = _on_meta(value)
    return _copied(name, module, memo)


def real_copy(name: str, module: nn.Module, device: str) -> nn.Module:
    """Copy of a module in training mode on `device`, with its weights."""
    _check_has_parameters(name, module)
    if any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
        raise ValueError(f"{name} is on the meta device and holds no weights to compute with")
    return _copied(name, module, {}).to(device)


def _check_has_parameters(name: str, module: nn.Module) -> None:
    parameters = list(module.parameters())
    if not parameters:
        raise ValueError(f"{name} has no parameters, so it has no layers to plan for")
    if any(isinstance(parameter, nn.UninitializedParameter) for parameter in parameters):
        raise ValueError(f"{name} has lazy layers without a shape yet; run it once on an input")


def _copied(name: str, module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    try:
        return copy.deepcopy(module, memo).train()
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"{name} cannot be copied, and the original is not touched: {error}"
        ) from error


def _on_meta(tensor: Tensor) -> Tensor:
    empty = torch.empty_like(tensor, device="meta")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty
