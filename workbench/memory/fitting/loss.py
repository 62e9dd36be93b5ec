"""A user's loss: the gradients that it gives, and the bytes that it allocates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.memory.measured import allocations
from workbench.memory.tracing.functional import default_loss
from workbench.memory.tracing.passes import Returned, Strides
from workbench.profiles.recorder import tensors_in
from workbench.utils.checks import UserError

Loss = Callable[[Any], Tensor]


@dataclass(frozen=True)
class LossProfile:
    """Layouts of the gradients that a loss gives, and bytes that it allocates.

    A gradient is laid out ``like`` its tensor, ``contiguous`` or ``expanded`` from one number.
    """

    layouts: Mapping[int, str]  # by number of a returned tensor that has a gradient
    bytes_ratio: float  # bytes allocated, in both directions, over those returned

    def strides(self, outputs: Sequence[Tensor]) -> dict[int, Strides]:
        """Strides of gradients of outputs, which may be fewer once attributes have changed."""
        made: dict[str, Callable[[Tensor], Strides]] = {
            "like": Tensor.stride,
            "contiguous": lambda output: torch.empty(output.shape, device="meta").stride(),
            "expanded": lambda output: (0,) * output.dim(),
        }
        known = {at: layout for at, layout in self.layouts.items() if at < len(outputs)}
        return {at: made[layout](outputs[at]) for at, layout in known.items()}


def profile_loss(loss: Loss, returned: Returned, outputs: Sequence[Tensor]) -> LossProfile:
    """Run a loss on zeros of the form of a module's outputs."""
    layouts: dict[int, str] = {}

    def run() -> None:
        value = value_of(loss, returned.filled(tensors))
        gradients = torch.autograd.grad(value, [tensors[at] for at in learnt], allow_unused=True)
        for at, gradient in zip(learnt, gradients, strict=True):
            if gradient is not None and gradient.stride() == tensors[at].stride():
                layouts[at] = "like"
            elif gradient is not None:
                layouts[at] = "contiguous" if any(gradient.stride()) else "expanded"

    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        tensors = [
            torch.empty_strided(output.shape, output.stride(), dtype=output.dtype).zero_()
            for output in outputs
        ]
        learnt = returned.differentiable
        for at in learnt:
            tensors[at].requires_grad_()
        (allocated,) = allocations([run])
    return LossProfile(layouts, allocated / max(1, sum(tensor.nbytes for tensor in tensors)))


def value_of(loss: Loss, returned: Any) -> Tensor:
    """Loss of a module's outputs; refuse anything but a number with a gradient."""
    try:
        value = loss(returned)
    except Exception as error:
        raise UserError(
            f"the loss fails on the {type(returned).__name__} that the module returns: "
            f"{type(error).__name__}: {error}. It is called with that alone; labels are its own, "
            "as in loss=lambda outputs: cross_entropy(outputs, labels)"
        ) from error
    if not isinstance(value, Tensor) or value.numel() != 1:
        given = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise UserError(f"the loss is of {given}; it must be a tensor of one number, as a mean is")
    if not value.requires_grad:
        raise UserError(
            "the loss has no gradient: compute it from what the module returns, by PyTorch and "
            "without detach"
        )
    return value


def usual_loss(returned: Any) -> Tensor:
    """The loss that a module returns as ``loss``; of scores that with classes; else the sum."""
    own = returned.get("loss") if isinstance(returned, Mapping) else getattr(returned, "loss", None)
    if isinstance(own, Tensor):
        return own
    first, *others = tensors_in(returned)
    if others or first.dim() < 2 or first.shape[-1] < 2:
        return default_loss(returned, first)
    scores = first.flatten(0, -2)
    return default_loss(scores, torch.zeros(len(scores), dtype=torch.int64))
