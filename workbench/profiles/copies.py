"""Copies of a module for a trace, and refusals of modules that cannot have one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from workbench.profiles.explained import quiet
from workbench.profiles.recorder import tensors_in
from workbench.utils.checks import UserError


def meta_copy(name: str, module: nn.Module) -> nn.Module:
    """Copy of a module in training mode, with every tensor of it on the meta device."""
    check_has_parameters(name, module)
    return copied_with(name, module, partial(torch.empty_like, device="meta")).train()


def copied_with(name: str, module: nn.Module, replacing: Callable[[Tensor], Tensor]) -> nn.Module:
    """Copy of a module in which each tensor that it or a part holds is replaced."""
    check_not_compiled(name, module)
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise UserError(f"{name} spreads a module over devices: give that module, model.module")
    memo: dict[int, Any] = {}
    for part in module.modules():
        for value in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(value, Tensor) and id(value) not in memo:
                other = replacing(value)
                memo[id(value)] = (
                    nn.Parameter(other, requires_grad=value.requires_grad)
                    if isinstance(value, nn.Parameter)
                    else other
                )
            elif isinstance(value, torch.Generator):
                memo[id(value)] = value
    return _copied(name, module, memo)


def real_copy(name: str, module: nn.Module, device: str) -> nn.Module:
    """Copy of a module in training mode on `device`, with its weights."""
    check_not_compiled(name, module)
    check_has_parameters(name, module)
    if any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
        raise UserError(f"{name} is on the meta device and holds no weights to compute with")
    return _copied(name, module, {}).train().to(device)


def check_not_compiled(name: str, module: nn.Module) -> None:
    """Refuse scripted and traced parts, whose operators cannot be seen."""
    for key, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise UserError(
                f"{name} cannot be traced: {f'its part {key!r}' if key else 'it'} is compiled by "
                "torch.jit;\ngive the module that it was made from"
            )


def check_has_parameters(name: str, module: nn.Module) -> None:
    """Refuse a module without parameters to train, or whose parameters have no shape yet."""
    parameters = list(module.parameters())
    if not parameters:
        raise UserError(f"{name} has no parameters, so it has no layers to plan for")
    if not any(parameter.requires_grad for parameter in parameters):
        raise UserError(
            f"every parameter of {name} is frozen, so there is nothing to train; call "
            "requires_grad_(True) on the parts that are to learn, such as its last layer"
        )
    if any(isinstance(parameter, nn.UninitializedParameter) for parameter in parameters):
        raise UserError(f"{name} has lazy layers without a shape yet; run it once on an input")


def held_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Buffers and other tensors that a module and its parts hold, by name."""
    held = dict(module.named_buffers())
    for prefix, part in module.named_modules():
        for key, attribute in vars(part).items():
            if isinstance(attribute, Tensor):
                held[f"{prefix}.{key}".lstrip(".")] = attribute
    return held


def copy_modes(module: nn.Module, copied: nn.Module) -> None:
    """Put each part of a copy in the mode, of training or not, in which the original's is."""
    for part, original in zip(copied.modules(), module.modules(), strict=True):
        part.training = original.training


def unfreeze(module: nn.Module) -> None:
    """Let every parameter learn whose type has gradients."""
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.is_floating_point() or parameter.is_complex())


def _copied(name: str, module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    try:
        with quiet():
            return copy.deepcopy(module, memo)
    except (TypeError, RuntimeError, pickle.PickleError) as error:
        inside = [
            f"{prefix}.{key}".lstrip(".")
            for prefix, part in module.named_modules()
            for key, value in vars(part).items()
            if key not in vars(nn.Module())
            and any(id(tensor) not in memo for tensor in tensors_in(value))
        ]
        why = f"{inside[0]!r} has a tensor: keep it in a buffer instead" if inside else error
        raise UserError(
            f"{name} cannot be copied, and the original is not touched: {why}"
        ) from error


def run_once(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run a copy of a module as it is; the random generator is left as it was."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        copy.deepcopy(module)(*args, **kwargs)
