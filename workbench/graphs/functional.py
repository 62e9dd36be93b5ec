"""Traces a module as a graph in which nothing is written in place: inference, or a step of SGD.

Fake tensors have the shapes of real ones and let PyTorch choose the operators that a CPU would, but
hold no numbers: weights are neither needed nor read. Writes in place become results of their own,
so that a memory plan, not the module's author, decides what is overwritten; what remains are those
into buffers that the module keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._prims_common import compute_elementwise_output_strides
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, functionalize, grad
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from workbench.graphs.graph import Recording
from workbench.graphs.recorder import Recorder, tensors_in
from workbench.graphs.recording import (
    check_has_parameters,
    check_returned,
    copied_with,
    explained,
    held_tensors,
    learning,
)
from workbench.utils.checks import UserError

Loss = Callable[..., Tensor]

LEARNING_RATE = 0.1
"""Of the step of SGD that is recorded; sizes and FLOPs do not depend on it."""


def trace_inference(name: str, module: nn.Module, inputs: tuple[Tensor, ...]) -> Recording:
    """Graph of a module in evaluation mode on inputs of these forms."""
    mode = FakeTensorMode()
    with mode:
        copied = copied_with(name, module, faked).eval()
        given, unused = tuple(map(faked, inputs)), torch.empty(())
    parameters, others = dict(copied.named_parameters()), held_tensors(copied)

    def forward(
        unused: Tensor, held: dict[str, Tensor], given: tuple[Tensor, ...]
    ) -> tuple[Tensor, list[Tensor]]:
        with torch.no_grad():
            returned = tensors_in(_called(copied, held, given))
        recorder.in_backward = True
        return unused, returned

    def run(*arguments: Any) -> list[Tensor]:
        # Below a gradient, though of nothing, functions are operators whose writes are seen.
        _, found = grad(forward, has_aux=True)(*arguments)
        recorder.in_backward = False
        return list(found)

    recorder = Recorder(parameters, given, others=others)
    with explained(name, copied), torch.no_grad(), mode, recorder:
        outputs = functionalize(run)(unused, {**parameters, **others}, given)
    check_returned(name, outputs)
    return recorder.graph(outputs)


def trace_training(
    name: str,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    targets: tuple[Tensor, ...],
    loss: Loss | None = None,
) -> Recording:
    """Graph of a step of SGD on inputs of these forms: forward, loss, gradients, update.

    Its outputs are the loss and the new parameters.
    """
    check_has_parameters(name, module)
    mode = FakeTensorMode()
    with mode:
        copied = copied_with(name, module, faked).train()
        given = tuple(map(faked, inputs))
        wanted = tuple(map(faked, targets))
    parameters, others = dict(copied.named_parameters()), held_tensors(copied)
    trained = {key: parameter for key, parameter in parameters.items() if parameter.requires_grad}
    held = {key: tensor for key, tensor in parameters.items() if key not in trained} | others
    recorder = Recorder(parameters, (*given, *wanted), others=others)

    def step(
        trained: dict[str, Tensor],
        held: dict[str, Tensor],
        given: tuple[Tensor, ...],
        wanted: tuple[Tensor, ...],
    ) -> list[Tensor]:
        def of(trained: dict[str, Tensor], held: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            returned = _called(copied, {**trained, **held}, given)
            value = (loss or default_loss)(returned, *wanted)
            return value, value

        gradients, value = grad(of, has_aux=True)(trained, held)
        recorder.phase = "update"
        updated = [
            torch.add(parameter, gradients[key], alpha=-LEARNING_RATE)
            for key, parameter in trained.items()
        ]
        return [value, *updated]

    with explained(name, copied), learning(), mode, recorder:
        outputs = functionalize(step)(trained, held, given, wanted)
    # The tracer tells whose gradients an operator computes by autograd's nodes, which are not those
    # of functional gradients: here operators of the backward pass have FLOPs of their own.
    return replace(recorder.graph(outputs), backward_flops={}, targets=len(targets))


def _called(module: nn.Module, held: dict[str, Tensor], given: tuple[Tensor, ...]) -> Any:
    with DrawingInPlace():
        return functional_call(module, held, given)


class DrawingInPlace(TorchFunctionMode):
    """Draws masks of dropout in the order of memory, as PyTorch does.

    It writes them into a tensor laid out like the input; that such a tensor has strides is lost
    where nothing is written in place.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func not in _DROPOUTS:
            return func(*args, **kwargs)
        given, *others = args or (kwargs.pop("input"),)
        strides = compute_elementwise_output_strides(given)
        order = sorted(range(given.dim()), key=lambda axis: -strides[axis])
        if order == list(range(given.dim())):
            return func(given, *others, **kwargs)
        back = [order.index(axis) for axis in range(given.dim())]
        return func(given.permute(order), *others, **kwargs).permute(back)


_DROPOUTS = frozenset(
    [functional.dropout, functional.alpha_dropout, torch.dropout, torch.alpha_dropout]
)
"""Those whose mask has the form of the input."""


def default_loss(returned: Any, target: Tensor) -> Tensor:
    """Cross entropy of a score for each of several classes with the target; else the sum."""
    outputs = tensors_in(returned)
    if not outputs:
        raise UserError("it returns no tensor to learn from")
    (first, *_) = outputs
    if len(outputs) == 1 and first.dim() == 2 and first.shape[1] > 1:
        return functional.cross_entropy(first, target)
    return torch.stack([output.sum() for output in outputs]).sum()


def faked(tensor: Tensor) -> Tensor:
    """In a fake mode: a tensor of the same form, on the CPU."""
    form = (tensor.shape, tensor.stride())
    return torch.empty_strided(*form, dtype=tensor.dtype, device="cpu")
