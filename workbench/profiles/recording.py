"""Runs a copy of a module once under a `Recorder`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from workbench.profiles.attention import MULTI_HEAD, attend, multi_head
from workbench.profiles.explained import explained
from workbench.profiles.graph import OperatorGraph, UntraceableError
from workbench.profiles.inputs import arguments
from workbench.profiles.private import NormBase, said_to_be_compiled
from workbench.profiles.recorder import Recorder, tensors_in
from workbench.utils.checks import UserError

T = TypeVar("T")


def record(
    name: str,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    *,
    names: Sequence[str],
    by_modules: bool = False,
    backward: bool = False,
) -> OperatorGraph:
    """Run `module` forward (and backward) on `inputs` once; return its graph.

    The module is used as it is and keeps gradients: give it a copy.
    """
    recorder = Recorder(dict(module.named_parameters()), inputs, names=names, by_modules=by_modules)
    outputs = run(name, module, inputs, recorder, _Attention(recorder), names=names)
    if backward:
        recorder.in_backward = True
        try:
            with recorder:
                run_backward(outputs)
        except RuntimeError as error:
            raise UserError(f"the backward pass of {name} fails: {error}") from error
    return recorder.graph(outputs)


class _Attention(TorchFunctionMode):
    """Notes operators of one call of attention: a cut never goes between them."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is MULTI_HEAD:
            result = multi_head(self._call, args, kwargs or {})
            if result is not None:
                return result
        return self._call(func, *args, **(kwargs or {}))

    def _call(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        first = len(self._recorder.operators)
        result = func(*args, **kwargs)
        if func in (attend, functional.scaled_dot_product_attention):
            self._recorder.attention_calls.append(range(first, len(self._recorder.operators)))
        return result


def run(
    name: str,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    recorder: Recorder,
    calls: AbstractContextManager[object] | None = None,
    *,
    names: Sequence[str],
) -> list[Tensor]:
    """Run `module` forward under recorders of its operators and calls; return its tensors."""
    modules = recorder.modules
    args, kwargs = arguments(names, inputs)
    hooks = nullcontext() if modules is None else layers_by_module(module, modules.append)
    # What the module's code makes without a device is where its inputs are.
    home = torch.device(inputs[0].device if inputs else "cpu")
    with learning(), home, recorder, explained(name, module), hooks, calls or nullcontext():
        outputs = tensors_in(module(*args, **kwargs))
    check_returned(name, outputs)
    return outputs


def check_returned(name: str, outputs: Sequence[Tensor]) -> None:
    """Refuse a module that returns no tensor."""
    if not outputs:
        raise UserError(f"{name} returns no tensor; its forward gives what is to be learnt from")


def run_backward(outputs: Sequence[Tensor]) -> None:
    """Run the backward pass of all outputs that have one, from gradients of one."""
    learnt = [output for output in outputs if output.requires_grad]
    if learnt:
        torch.autograd.backward(learnt, [torch.ones_like(output) for output in learnt])


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
    norms = (NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.PReLU)
    return not isinstance(part, norms) and any(p is not None for p in part._parameters.values())


@contextmanager
def learning() -> Iterator[None]:
    """Record gradients, whatever the caller's setting."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def as_compiled(trace: Callable[[], T]) -> T:
    """Trace a module; if it asks for numbers, again as `torch.compile` does.

    Code that looks into masks, to leave out those that hide nothing, does not do so when it is
    asked whether it is compiled. PyTorch's encoders and decoders look whether a mask is causal; in
    the graph they use it as it is.
    """
    try:
        return trace()
    except UntraceableError as error:
        try:
            with said_to_be_compiled():
                return trace()
        except UserError:
            raise error from error.__cause__
