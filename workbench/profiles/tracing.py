"""Runs a module once under a `Recorder`, on a copy, and says in the user's terms what fails."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._pytree import tree_leaves

from workbench.profiles.chain import Recorder
from workbench.profiles.recorded import Chain, chain_of

Shapes = tuple[tuple[int, ...], ...]


class UntraceableError(ValueError):
    """A module whose graph depends on the numbers it computes with."""


def record(
    name: str,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    *,
    by_modules: bool = False,
    backward: bool = True,
) -> Chain:
    """Run `module` forward (and backward) on `inputs` once; return the chain of its layers.

    The module is used as it is and keeps gradients: give it a copy.

    Raises
    ------
    UntraceableError
        The inputs are meta tensors and the module needs numbers.
    ValueError
        The inputs do not fit, or nothing comes out.
    """
    recorder = Recorder(dict(module.named_parameters()), by_modules=by_modules)
    titles: dict[int, str] = {}

    def enter(layer: int, title: str) -> None:
        recorder.current = layer
        titles[layer] = title

    for tensor in inputs:
        recorder.take_input(tensor)
    by_hooks = layers_by_module(module, enter) if by_modules else nullcontext()
    with learning(), recorder, _explained(name, module), by_hooks:
        outputs = tensors_in(module(*inputs))
    if not outputs:
        raise ValueError(f"{name} returns no tensor; its forward gives what is to be learnt from")
    for output in outputs:
        recorder.give_output(output)
    learnt = [output for output in outputs if output.requires_grad]
    if backward and learnt:
        recorder.in_backward = True
        try:
            with recorder:
                torch.autograd.backward(learnt, [torch.ones_like(output) for output in learnt])
        except RuntimeError as error:
            raise ValueError(f"the backward pass of {name} fails: {error}") from error
    return chain_of(recorder, titles)


def meta_copy(name: str, module: nn.Module) -> nn.Module:
    """Copy of a module in training mode, with every tensor of it on the meta device."""
    memo: dict[int, Any] = {}
    for part in module.modules():
        for value in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(value, Tensor):
                memo[id(value)] = _on_meta(value)
    return _copied(name, module, memo)


def real_copy(name: str, module: nn.Module, device: str) -> nn.Module:
    """Copy of a module in training mode on `device`, with its weights."""
    if any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
        raise ValueError(f"{name} is on the meta device and holds no weights to compute with")
    return _copied(name, module, {}).to(device)


def check_has_parameters(name: str, module: nn.Module) -> None:
    """Refuse a module in which there is nothing to transmit, or not yet."""
    parameters = list(module.parameters())
    if not parameters:
        raise ValueError(f"{name} has no parameters, so it has no layers to plan for")
    if any(isinstance(parameter, nn.UninitializedParameter) for parameter in parameters):
        raise ValueError(f"{name} has lazy layers without a shape yet; run it once on an input")


def make_inputs(shapes: Shapes, batch_size: int, dtype: str, device: str) -> tuple[Tensor, ...]:
    """Input tensors of a batch: normal noise, zeros for integers."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise ValueError(f"unknown input_dtype {dtype!r}; PyTorch's names are right: 'float32'")
    make = torch.randn if kind.is_floating_point or kind.is_complex else torch.zeros
    return tuple(make((batch_size, *shape), dtype=kind, device=device) for shape in shapes)


def tensors_in(tree: object) -> list[Tensor]:
    """Tensors in nested tuples, lists and dicts."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


@contextmanager
def layers_by_module(module: nn.Module, enter: Any) -> Iterator[None]:
    """Call ``enter(layer, name)`` when a module that bears weights is called for the first time.

    Normalisations start no layer but belong to the one before; nor does a module called again.
    """
    names = {part: name or type(part).__name__ for name, part in module.named_modules()}
    order: dict[nn.Module, int] = {}

    def before(part: nn.Module, _: object) -> None:
        if part not in order:
            order[part] = len(order) + 1
            enter(order[part], names[part])

    handles = [part.register_forward_pre_hook(before) for part in names if _starts_layer(part)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _starts_layer(part: nn.Module) -> bool:
    norms = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.PReLU)
    return not isinstance(part, norms) and any(p is not None for p in part._parameters.values())


@contextmanager
def learning() -> Iterator[None]:
    """Record gradients, whatever the caller's setting."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@contextmanager
def _explained(name: str, module: nn.Module) -> Iterator[None]:
    """Turn an error out of the module's forward into one that says where and what to do."""
    names = {part: part_name for part_name, part in module.named_modules()}
    within: list[nn.Module] = []

    def before(part: nn.Module, _: object) -> None:
        within.append(part)

    def after(_: nn.Module, __: object, ___: object) -> None:
        within.pop()

    handles = [
        handle
        for part in names
        for handle in (part.register_forward_pre_hook(before), part.register_forward_hook(after))
    ]
    try:
        yield
    except Exception as error:
        part = within[-1] if within else module
        leaf = names[part] and not list(part.children())
        where = f"at layer {names[part]!r} ({part})" if leaf else _at(names[part])
        why = f"{type(error).__name__}: {str(error).rstrip('.')}"
        if isinstance(error, RuntimeError | TypeError) and re.search(r"\bmeta\b", str(error), re.I):
            raise UntraceableError(
                f"{name} cannot be traced: {where}, {why}. Its control flow depends on data, or "
                "it leaves PyTorch. Profile it by the order of its modules instead: "
                'profile_model(…, by="modules") and measure_layer_times(…, by="modules"), '
                "or `workbench profile --by modules`, run it for real"
            ) from error
        raise ValueError(
            f"the input does not fit {name}: {where}, {why}. Give "
            "input_shape without the batch dimension, and input_dtype if it is not float32"
        ) from error
    finally:
        for handle in handles:
            handle.remove()


def _at(part_name: str) -> str:
    return f"in {part_name!r}" if part_name else "in its forward"


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
