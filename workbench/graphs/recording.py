"""Runs a module once under a `Recorder`, and says in the user's terms what fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from workbench.graphs.graph import OperatorGraph, UntraceableError
from workbench.graphs.recorder import Recorder, tensors_in


def record(
    name: str,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    *,
    by_modules: bool = False,
    backward: bool = False,
) -> OperatorGraph:
    """Run `module` forward (and backward) on `inputs` once; return its graph.

    The module is used as it is and keeps gradients: give it a copy.
    """
    recorder = Recorder(dict(module.named_parameters()), inputs, by_modules=by_modules)
    outputs = run(name, module, inputs, recorder)
    learnt = [output for output in outputs if output.requires_grad]
    if backward and learnt:
        recorder.in_backward = True
        try:
            with recorder:
                torch.autograd.backward(learnt, [torch.ones_like(output) for output in learnt])
        except RuntimeError as error:
            raise ValueError(f"the backward pass of {name} fails: {error}") from error
    return recorder.graph(outputs)


def run(
    name: str,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    recorder: Recorder,
    calls: AbstractContextManager[object] | None = None,
) -> list[Tensor]:
    """Run `module` forward under a recorder; what it gives.

    Raises
    ------
    UntraceableError
        The inputs are meta tensors and the module needs numbers.
    ValueError
        The inputs do not fit, or nothing comes out.
    """
    modules = recorder.modules
    hooks = nullcontext() if modules is None else layers_by_module(module, modules.append)
    with learning(), recorder, _explained(name, module), hooks, calls or nullcontext():
        outputs = tensors_in(module(*inputs))
    if not outputs:
        raise ValueError(f"{name} returns no tensor; its forward gives what is to be learnt from")
    return outputs


@contextmanager
def layers_by_module(module: nn.Module, enter: Callable[[str], object]) -> Iterator[None]:
    """Call ``enter(name)`` when a module that bears weights is called for the first time.

    Normalisations start no layer but belong to the one before; nor does a module called again.
    """
    names = {part: name or type(part).__name__ for name, part in module.named_modules()}
    seen: set[nn.Module] = set()

    def before(part: nn.Module, _: object) -> None:
        if part not in seen:
            seen.add(part)
            enter(names[part])

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
        where = f"in {names[part]!r}" if names[part] else "in its forward"
        if names[part] and not list(part.children()):
            where = f"at layer {names[part]!r} ({part})"
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
