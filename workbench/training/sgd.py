"""Stochastic gradient descent with momentum, on a flat vector or any slice of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.utils.checks import UserError, check_number, check_truth

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

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not 0 < check_number("learning_rate", self.learning_rate) < math.inf:
            raise UserError(f"learning_rate is {self.learning_rate}; it must be above 0 and finite")
        if not 0 <= check_number("momentum", self.momentum) < 1:
            raise UserError(f"momentum is {self.momentum}; it must be at least 0 and below 1")
        if not 0 <= check_number("weight_decay", self.weight_decay) < math.inf:
            raise UserError(f"weight_decay is {self.weight_decay}; it must be at least 0")
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

        if not parameters.shape == gradients.shape == velocity.shape:
            shapes = [tuple(vector.shape) for vector in (parameters, gradients, velocity)]
            raise UserError(f"parameters, gradients and velocity have the shapes {shapes}")
        with torch.no_grad():
            towards = gradients
            if self.weight_decay:
                towards = towards.add(parameters, alpha=self.weight_decay)
            if self.momentum:
                velocity.mul_(self.momentum).add_(towards)
                towards = towards.add(velocity, alpha=self.momentum) if self.nesterov else velocity
            parameters.add_(towards, alpha=-self.learning_rate)
