"""A budget for anybody's training loop: both passes of a module within it, as PyTorch runs them.

>>> import torch
>>> from workbench import memory
>>> layers = [part for _ in range(6) for part in (torch.nn.Linear(64, 64), torch.nn.Tanh())]
>>> model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 2))
>>> x = torch.randn(512, 64)
>>> model = memory.fit(model, x, budget="75%")
>>> model.fit.peak_bytes <= model.fit.budget_bytes
True
>>> model(x).sum().backward()
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from workbench.memory.fitting.loss import Loss, LossProfile, usual_loss
from workbench.memory.fitting.module import Fitted, Plans, check_module, plain_of
from workbench.memory.fitting.planning import Fit, read_fit, step_of
from workbench.memory.fitting.profile import Profile
from workbench.memory.measured import ONE_AT_A_TIME
from workbench.memory.process import OPTIMIZERS
from workbench.memory.recomputation import BudgetError
from workbench.profiles.copies import check_has_parameters
from workbench.profiles.recorder import tensors_in
from workbench.utils.checks import UserError, check_kind, choose, parse_budget
from workbench.utils.numbers import bytes_as_text

__all__ = ["Fit", "Fitted", "fit", "largest_batch", "load_fit"]

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
    what does not fit is computed again in the backward pass. Its `fit` says what that costs, its
    `plain` is `model`.
    Planning runs the loss, and each operator alone on numbers made for it: beside the module and
    its inputs it takes what the largest operator takes, as any step does; `load_fit` runs none.
    Of several passes before one backward pass, gradients of a parameter that is used more than once
    are added up pass by pass, which may round otherwise.

    Parameters
    ----------
    model
        On the CPU. It is not copied. Of one that is within a budget already, the plain module.
    inputs
        A batch. For inputs of another form, or other modes, the module is planned again when it
        meets them, within the same budget.
    budget
        Most bytes of all that a step holds, as in ``"8GB"``: parameters, gradients, the optimiser's
        state, inputs, and what kernels allocate. Or ``"50%"`` of what a step holds at most in which
        nothing is computed again, as in plain PyTorch; it is counted, not run.
    loss
        Called with what the model returns; its value is not used, but what it uses and allocates.
        By default the ``loss`` that the model returns, or cross entropy of its scores.
    optimizer
        A name in `workbench.memory.process.OPTIMIZERS`, whose state counts.

    Raises `BudgetError`, with the least that was found: no plan is within the budget. ValueError: a
    module that cannot be traced; hooks on parts of it; autocast; another device.
    """
    model, args, kwargs, chosen = _checked(model, inputs, budget, loss, optimizer)
    return _fitted(Plans(model, budget, chosen, optimizer), args, kwargs)


def load_fit(path: str | os.PathLike[str], model: nn.Module, inputs: Inputs) -> Fitted:
    """Return a module that trains by a plan that ``fit(…).fit.save(path)`` wrote.

    No operator is run to plan it: budget, optimizer, and what loss and operators were measured to
    take are the file's, so it is best of a machine of the same kind. Parameters may differ.

    Raises UserError: a file of another kind; a plan of another module or other forms of `inputs`.
    """
    budget_bytes, optimizer, loss, profile = read_fit(path)
    model, args, kwargs, _ = _checked(model, inputs, budget_bytes, None, optimizer)
    return _fitted(Plans(model, budget_bytes, loss, optimizer), args, kwargs, profile)


def _fitted(
    plans: Plans,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    profile: Profile | None = None,
) -> Fitted:
    with ONE_AT_A_TIME, torch.enable_grad():
        plans.plan(args, kwargs, profile)
    return Fitted(plans)


def largest_batch(
    model: nn.Module,
    inputs: Inputs,
    budget: str | int,
    *,
    loss: Loss | None = None,
    optimizer: str = "adamw",
) -> int:
    """Return the most samples with which a step of training is within a budget, as `fit` plans it.

    The first dimension of `inputs` counts samples, in all that have as many as the first has. The
    loss is run on as many. Operators are run alone, to count what their kernels allocate, and none
    that needs more than the budget. Raises as `fit` does, and UserError: a budget above this
    machine's memory; `BudgetError`: not even one sample fits.
    """
    model, args, kwargs, chosen = _checked(model, inputs, budget, loss, optimizer)
    first, *others = tensors_in((args, kwargs))
    given = len(first)
    square = [tensor for tensor in others if tensor.shape[:2] == (given, given)]
    if square:
        raise UserError(
            f"an input of shape {tuple(square[0].shape)} may be one for each of the {given} "
            "samples, or a mask for all: give a batch of another size"
        )

    def is_batch(leaf: Any) -> bool:
        return isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == given

    def whole_bytes() -> int:
        with ONE_AT_A_TIME:
            return step_of(model, args, kwargs, chosen, optimizer, timed=False).plain_bytes

    budget_bytes = parse_budget(budget, whole_bytes)
    if budget_bytes > (machine_bytes := psutil.virtual_memory().total):
        raise UserError(
            f"a budget of {bytes_as_text(budget_bytes)} is above the {bytes_as_text(machine_bytes)}"
            " of this machine, on which operators are run to count what they take: give at most "
            "that, or plan on the machine that trains"
        )
    sample_bytes = sum(tensor.nbytes // given for tensor in (first, *others) if is_batch(tensor))
    loss_of: LossProfile | Loss = chosen

    def fits(samples: int) -> bool:
        nonlocal loss_of
        if samples * sample_bytes > budget_bytes:
            return False
        rows = torch.arange(samples) % given
        some, named = tree_map(
            lambda leaf: leaf[rows] if is_batch(leaf) else leaf, (args, dict(kwargs))
        )
        try:
            with ONE_AT_A_TIME:
                step = step_of(
                    model, some, named, loss_of, optimizer, timed=False, most_bytes=budget_bytes
                )
        except BudgetError:
            return False
        loss_of = step.loss
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
        raise BudgetError(f"not one sample trains within {bytes_as_text(budget_bytes)}")
    return fitting


def _checked(
    model: nn.Module, inputs: Inputs, budget: str | int, loss: Loss | None, optimizer: str
) -> tuple[nn.Module, tuple[Any, ...], Mapping[str, Any], Loss]:
    """The plain module, its positional arguments, those by name, and the loss."""
    check_kind("model", model, nn.Module, "a module of PyTorch")
    choose("optimizer", optimizer, OPTIMIZERS)
    if loss is not None and not callable(loss):
        raise UserError(f"loss is {loss!r}; give a function of what the module returns")
    tensors = tensors_in(inputs)
    if not (tensors and isinstance(inputs, Tensor | Sequence | Mapping)):
        raise UserError(
            f"inputs are of {type(inputs).__name__} without a tensor; give what the module is "
            "called with: a batch, several tensors in a list, or by name in a dict"
        )
    if not (tensors[0].dim() and len(tensors[0])):
        raise UserError("the first input has no samples: give a batch")
    parse_budget(budget, lambda: 0)  # refused before anything is traced
    check_module(model, inputs)
    if not any(tensor.requires_grad for tensor in tensors):
        check_has_parameters(type(model).__name__, model)
    if isinstance(inputs, Mapping):
        args, kwargs = (), inputs
    else:
        args, kwargs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs), {}
    return plain_of(model), args, kwargs, loss or usual_loss
