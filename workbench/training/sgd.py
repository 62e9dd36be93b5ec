"""Stochastic gradient descent with momentum, on a flat vector or any slice of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.utils.checks import (
    ABOVE_ZERO,
    BELOW_ONE,
    NOT_NEGATIVE,
    UserError,
    check_fields,
    check_truth,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Sgd:
    """The step of ``torch.optim.SGD``, with the same bits.

    Elements are independent, so a step on a vector and steps on the slices that make it up give
    the same bits, too: a parameter server may step on what has arrived. The state is a vector
    that the caller keeps and cuts like the parameters.

    Parameters
    ----------
    learning_rate
        Above 0.
    momentum
        From 0 to below 1: how much of the last step's direction is kept.
    weight_decay
        At least 0: added times the parameter to its gradient, for every element.
    nesterov
        Look ahead along the direction; needs momentum.
    """

    learning_rate: float = field(metadata=ABOVE_ZERO)
    momentum: float = field(default=0.0, metadata=BELOW_ONE)
    weight_decay: float = field(default=0.0, metadata=NOT_NEGATIVE)
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_truth("nesterov", self.nesterov)
        if self.nesterov and not self.momentum:
            raise UserError("nesterov needs a momentum above 0")

    def start(self, parameters: Tensor) -> Tensor:
        """Return the state before the first step: zeros."""
        import torch

        return torch.zeros_like(parameters)

    def step(self, parameters: Tensor, gradients: Tensor, velocity: Tensor) -> None:
        """Change `parameters` and `velocity` in place; all three are of one shape."""
        import torch
        from torch.optim.sgd import sgd

        if not parameters.shape == gradients.shape == velocity.shape:
            shapes = [tuple(vector.shape) for vector in (parameters, gradients, velocity)]
            raise UserError(f"parameters, gradients and velocity have the shapes {shapes}")
        with torch.no_grad():
            sgd(
                [parameters],
                [gradients],
                [velocity],
                foreach=False,
                lr=self.learning_rate,
                momentum=self.momentum,
                weight_decay=self.weight_decay,
                nesterov=bool(self.nesterov),
                dampening=0.0,
                maximize=False,
            )
