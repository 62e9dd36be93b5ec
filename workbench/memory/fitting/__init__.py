"""A budget for anybody's training loop: both passes of a module within it, as PyTorch runs them.

>>> import torch
>>> from workbench import memory
>>> model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
>>> model = memory.fit(model, torch.randn(32, 8), budget="1MB")
>>> model(torch.randn(32, 8)).sum().backward()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from workbench.memory.fitting.module import Fitted
from workbench.memory.fitting.planning import Fit, Loss, usual_loss
from workbench.utils.checks import parse_bytes

__all__ = ["Fit", "Fitted", "fit"]


def fit(
    model: nn.Module,
    inputs: Tensor | Sequence[Any] | Mapping[str, Any],
    budget: str | int,
    *,
    loss: Loss | None = None,
    optimizer: str = "adamw",
) -> Fitted:
    """Return a module that trains as `model` does, within a budget."""
    args, kwargs = arguments(inputs)
    budget_bytes = parse_bytes(budget) if isinstance(budget, str) else budget
    fitted = Fitted(model, budget_bytes, loss or usual_loss, optimizer)
    fitted.planned(args, kwargs)
    return fitted


def arguments(
    inputs: Tensor | Sequence[Any] | Mapping[str, Any],
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Arguments of a module: one tensor, several in their order, or by name."""
    if isinstance(inputs, Mapping):
        return (), inputs
    return ((inputs,) if isinstance(inputs, Tensor) else tuple(inputs)), {}
