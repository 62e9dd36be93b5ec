"""A budget for anybody's training loop: both passes of a module within it, as PyTorch runs them.

>>> import torch
>>> from workbench import memory
>>> model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
>>> x = torch.randn(512, 8)
>>> model = memory.fit(model, x, budget="75%")
>>> model.fit.peak_bytes <= model.fit.budget_bytes
True
>>> model(x).sum().backward()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from workbench.graphs.recorder import tensors_in
from workbench.memory.fitting.module import Fitted
from workbench.memory.fitting.planning import Fit, Loss, plain_bytes, step_of, usual_loss
from workbench.memory.process import OPTIMIZERS
from workbench.memory.recomputation import BudgetError
from workbench.utils.checks import UserError, check_kind, choose, parse_budget

__all__ = ["Fit", "Fitted", "fit", "largest_batch"]

Inputs = Tensor | Sequence[Any] | Mapping[str, Any]
"""A module's only input, several in their order, or by name."""


def fit(
    model: nn.Module,
    inputs: Inputs,
    budget: str | int,
    *,
    loss: Loss | None = None,
    optimizer: str = "adamw",
) -> Fitted:
    """Return a module that trains as `model` does, in the same loop, within a budget.

    It has the parameters, buffers and names of `model`, and computes the same numbers, bit for bit:
    what does not fit is computed again in the backward pass. Its `fit` says what that costs.
    Of several passes before one backward pass, gradients of a parameter that is used more than once
    are added up pass by pass, which may round otherwise.

    Parameters
    ----------
    model
        On the CPU. It is not copied.
    inputs
        A batch. For inputs of another form, or other modes, the module is planned again when it
        meets them, within the same budget.
    budget
        Most bytes of all that a step holds, as in ``"8GB"``: parameters, gradients, the optimiser's
        state, inputs, and what kernels allocate. Or ``"50%"`` of what a step of plain PyTorch holds
        at most, which is run once to count that.
    loss
        Called with what the model returns; its value is not used, but what it uses and allocates.
        By default the ``loss`` that the model returns, or cross entropy of its scores.
    optimizer
        A name in `workbench.memory.process.OPTIMIZERS`, whose state counts.

    Raises `BudgetError`, with the least that was found: no plan is within the budget. ValueError: a
    module that cannot be traced; hooks on parts of it; autocast; another device.
    """
    args, kwargs = _checked(model, inputs, optimizer)
    chosen = loss or usual_loss
    budget_bytes = parse_budget(budget, lambda: plain_bytes(model, args, kwargs, chosen, optimizer))
    fitted = Fitted(model, budget_bytes, chosen, optimizer)
    with torch.enable_grad():
        fitted.planned(args, kwargs)
    return fitted


def largest_batch(
    model: nn.Module,
    inputs: Inputs,
    budget: str | int,
    *,
    loss: Loss | None = None,
    optimizer: str = "adamw",
) -> int:
    """Return the most samples with which a step of training is within a budget, as `fit` plans it.

    The first dimension of `inputs` counts samples, in all that have as many as the first has. A
    loss needs to take any number of samples. Raises `BudgetError`: not even one fits.
    """
    args, kwargs = _checked(model, inputs, optimizer)
    chosen = loss or usual_loss
    budget_bytes = parse_budget(budget, lambda: plain_bytes(model, args, kwargs, chosen, optimizer))
    tensors = tensors_in((args, kwargs))
    given = len(tensors[0]) if tensors and tensors[0].dim() else 0
    if not given:
        raise UserError("the first input has no samples to count: give a batch")

    def fits(samples: int) -> bool:
        at = torch.arange(samples) % given

        def part(leaf: Any) -> Any:
            is_batch = isinstance(leaf, Tensor) and leaf.dim() and len(leaf) == given
            return leaf[at] if is_batch else leaf

        some, named = tree_map(part, (args, dict(kwargs)))
        step, _ = step_of(model, some, named, chosen, optimizer)
        return step.is_within(budget_bytes)

    fitting, too_many = 0, given
    while fits(too_many):
        fitting, too_many = too_many, 2 * too_many
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(middle):
            fitting = middle
        else:
            too_many = middle
    if not fitting:
        raise BudgetError(f"not one sample trains within {budget_bytes:,} bytes")
    return fitting


def _checked(
    model: object, inputs: Inputs, optimizer: str
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Positional arguments of a module, and those by name."""
    check_kind("model", model, nn.Module, "a module of PyTorch")
    choose("optimizer", optimizer, OPTIMIZERS)
    if isinstance(inputs, Mapping):
        return (), inputs
    return ((inputs,) if isinstance(inputs, Tensor) else tuple(inputs)), {}
