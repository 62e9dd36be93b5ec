"""Traces inference, or a step of SGD, as a graph in which nothing is written in place.

Fake tensors have the shapes of real ones and let PyTorch choose the operators that a CPU would, but
hold no numbers: weights are neither needed nor read. Writes in place become results of their own,
so that a memory plan, not the module's author, decides what is overwritten; what remains are those
into buffers that the module keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, functionalize, grad
from torch.nn import functional as functional_calls
from torch.nn.functional import alpha_dropout, cross_entropy, dropout
from torch.overrides import TorchFunctionMode

from workbench.profiles.copies import check_has_parameters, copied_with, held_tensors
from workbench.profiles.explained import explained
from workbench.profiles.graph import OperatorGraph
from workbench.profiles.inputs import arguments
from workbench.profiles.private import (
    FakeTensorMode,
    compute_elementwise_output_strides,
    grouped_mm,
    neg_view,
)
from workbench.profiles.recorder import Recorder, tensors_in
from workbench.profiles.recording import check_returned, learning
from workbench.utils.checks import UserError

Loss = Callable[..., Tensor]

LEARNING_RATE = 0.1
"""Rate of the step of SGD that is recorded; sizes and FLOPs do not depend on it."""


def trace_functional(
    name: str,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    *,
    names: Sequence[str],
    training: bool = False,
    targets: tuple[Tensor, ...] = (),
    loss: Loss | None = None,
) -> OperatorGraph:
    """Trace inference, or a step of SGD: forward, loss, gradients, update.

    For inputs of these forms, those with a name by it. Outputs are what the module returns, or the
    loss and the new parameters.
    """
    if training:
        check_has_parameters(name, module)
    mode = FakeTensorMode()
    with mode:
        copied = copied_with(name, module, faked).train(training)
        fakes, fake_targets = tuple(map(faked, inputs)), tuple(map(faked, targets))
        unused = torch.empty(())
    parameters, others = dict(copied.named_parameters()), held_tensors(copied)
    trained = {key: p.detach() for key, p in parameters.items() if p.requires_grad}
    held = {key: p for key, p in parameters.items() if key not in trained} | others
    of_all = [*names, *("" for _ in fake_targets)]
    recorder = Recorder(parameters, (*fakes, *fake_targets), names=of_all, others=others)
    # What a CPU's own backward pass of these keeps is of a size that shapes do not tell; one that
    # could be differentiated in turn is made of known operators.
    recurrent = any(isinstance(part, nn.RNNBase) for part in copied.modules())

    def run(
        trained: dict[str, Tensor],
        held: dict[str, Tensor],
        fakes: tuple[Tensor, ...],
        fake_targets: tuple[Tensor, ...],
    ) -> list[Tensor]:
        if not training:
            with torch.no_grad():
                return tensors_in(_called(copied, trained | held, names, fakes))
        value = (loss or default_loss)(_called(copied, trained | held, names, fakes), *fake_targets)
        gradients = torch.autograd.grad(
            value, list(trained.values()), create_graph=recurrent, materialize_grads=True
        )
        recorder.phase = "update"
        with torch.no_grad():
            pairs = zip(trained.values(), gradients, strict=True)
            return [value, *(torch.add(old, by, alpha=-LEARNING_RATE) for old, by in pairs)]

    untraced = partial(_called_once, copied, names, fakes, mode)
    recording = learning() if training else torch.no_grad()
    with explained(name, copied, untraced=untraced), recording, mode, recorder:
        outputs = functional(run, recorder)(unused, trained, held, fakes, fake_targets)
    check_returned(name, outputs)
    # The recorder tells whose gradients an operator computes by autograd's nodes, which are not
    # those of functional gradients: here operators of the backward pass have FLOPs of their own.
    return replace(recorder.graph(outputs), backward_flops={}, targets=len(targets))


def _called_once(
    module: nn.Module, names: Sequence[str], tensors: Sequence[Tensor], mode: FakeTensorMode
) -> None:
    with torch.no_grad(), mode:
        _called(module, {}, names, tensors)


def functional(
    function: Callable[..., list[Tensor]], recorder: Recorder
) -> Callable[..., list[Tensor]]:
    """A function that writes nothing in place, called with a scalar and its own arguments.

    Below a gradient, though of that scalar alone, functions are operators whose writes are seen. Of
    the first argument autograd records what it may ask for: PyTorch chooses other operators for a
    weight that may learn. No tensor needs a gradient outside: operators that stand in for writes,
    such as `slice_scatter`, have none for complex numbers.
    """

    def passed_on(unused: Tensor, *args: Any) -> tuple[Tensor, list[Tensor]]:
        outputs = function(*args)
        recorder.in_backward = True
        return unused, outputs

    def run(*args: Any) -> list[Tensor]:
        _, outputs = grad(passed_on, argnums=(0, 1), has_aux=True)(*args)
        recorder.in_backward = False
        return list(outputs)

    return functionalize(run)


def _called(
    module: nn.Module, held: dict[str, Tensor], names: Sequence[str], tensors: Sequence[Tensor]
) -> Any:
    with DrawingInPlace():
        return functional_call(module, held, *arguments(names, tensors))


class DrawingInPlace(TorchFunctionMode):
    """Draws masks of dropout in the order of memory, as PyTorch does.

    It writes them into a tensor laid out like the input; that such a tensor has strides is lost
    where nothing is written in place. Refuses writes of what is learnt through a mask.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in _WRITING:
            _, index, value = (*args, *kwargs.values())[:3]
            is_learnt = isinstance(value, Tensor) and value.requires_grad
            if is_learnt and any(
                part.dtype in (torch.bool, torch.uint8) for part in tensors_in(index)
            ):
                raise UserError(
                    "it writes what is learnt through a mask, and how many numbers that takes "
                    "depends on data: choose by torch.where(mask, value, tensor)"
                )
        if func in _GROUPED and args[0].dtype == torch.float32:
            try:
                return func(*args, **kwargs)
            except RuntimeError as error:
                raise UserError(
                    "PyTorch knows the gradients' shapes of grouped_mm in bfloat16 alone: convert "
                    "the module by .bfloat16(), or, where it is of transformers, set its "
                    "config._experts_implementation = 'batched_mm'"
                ) from error
        if func not in _DROPOUTS:
            return func(*args, **kwargs)
        tensor, *others = args or (kwargs.pop("input"),)
        strides = compute_elementwise_output_strides(tensor)
        order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
        if order == list(range(tensor.dim())):
            return func(tensor, *others, **kwargs)
        back = [order.index(axis) for axis in range(tensor.dim())]
        return func(tensor.permute(order), *others, **kwargs).permute(back)


_DROPOUTS = frozenset([dropout, alpha_dropout, torch.dropout, torch.alpha_dropout])
"""Functions whose mask has the form of the input."""

_GROUPED: Any = (functional_calls.grouped_mm, grouped_mm)

_WRITING = frozenset(
    [
        *(Tensor.__setitem__, Tensor.index_put, Tensor.index_put_, torch.index_put),
        *(Tensor.masked_scatter, Tensor.masked_scatter_, torch.masked_scatter),
    ]
)
"""Functions of a tensor, of an index into it, and of what to write there."""


def default_loss(returned: Any, target: Tensor) -> Tensor:
    """Cross entropy of a score for each of several classes with the target; else the sum.

    Scores are samples x classes, or samples x positions x classes for a class at each position.
    Where a module returns ``logits`` among others, these are the scores.
    """
    outputs = _scored(returned)
    (first, *others) = outputs
    if not others and first.dim() == target.dim() + 1 and first.shape[-1] > 1:
        return cross_entropy(first.flatten(0, -2), target.flatten())
    return torch.stack([output.sum() for output in outputs]).sum()


def default_target(
    name: str, module: nn.Module, inputs: tuple[Tensor, ...], names: Sequence[str]
) -> tuple[int, ...]:
    """Shape of what `default_loss` compares a sample with: of tokens, a class at each position."""
    if inputs[0].dim() != 2 or inputs[0].is_floating_point():
        return ()
    with FakeTensorMode() as mode:
        copied = copied_with(name, module, faked).eval()
        fakes = tuple(map(faked, inputs))
    with explained(name, copied), torch.no_grad(), mode:
        (first, *others) = _scored(_called(copied, {}, names, fakes))
    return tuple(first.shape[1:2]) if not others and first.dim() == 3 else ()


def _scored(returned: Any) -> list[Tensor]:
    logits = returned.get("logits") if isinstance(returned, Mapping) else None
    outputs = tensors_in(getattr(returned, "logits", None) if logits is None else logits)
    outputs = outputs or tensors_in(returned)
    if not outputs:
        raise UserError("it returns no tensor to learn from")
    return outputs


def faked(tensor: Tensor) -> Tensor:
    """In a fake mode: a tensor of the same form, on the CPU."""
    if tensor.layout is not torch.strided:
        raise UserError(
            f"a tensor of shape {tuple(tensor.shape)} is sparse, and a graph holds dense ones: "
            "give it as .to_dense() makes it"
        )
    form = (tensor.shape, tensor.stride())
    fake = torch.empty_strided(*form, dtype=tensor.dtype, device="cpu")
    fake = fake.conj() if tensor.is_conj() else fake
    return neg_view(fake) if tensor.is_neg() else fake
