"""A module that trains as the one it is made of, within a budget."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from workbench.graphs.recorder import tensors_in
from workbench.graphs.recording import held_tensors
from workbench.memory.fitting.planning import Fit, Loss, Step, Used, step_of
from workbench.memory.fitting.running import Pending, Run, run_passes
from workbench.utils.checks import UserError

_SHARED = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class Fitted(nn.Module):
    """A module within a budget; parameters, modes and names are those of the plain module.

    It is planned again for inputs of another form, for other modes, and once other parameters are
    frozen; without gradients the plain module runs.
    """

    def __init__(
        self, module: nn.Module, budget_bytes: int, used: Used | Loss, optimizer: str
    ) -> None:
        super().__init__()
        vars(self).update({name: vars(module)[name] for name in _SHARED})
        vars(self).update(_plain=module, _budget=budget_bytes, _used=used, _optimizer=optimizer)
        self.training = module.training
        self._forget()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the plain module does."""
        tensors, held = tensors_in((args, kwargs)), held_by(self._plain)
        learns = any(tensor.requires_grad for tensor in (*tensors, *held.values()))
        if not (learns and torch.is_grad_enabled()):
            return self._plain(*args, **kwargs)
        fit = self.planned(args, kwargs)
        passes, graph = fit.step.passes, fit.step.passes.graph
        sources = dict(graph.written_down) | {at: held[name].detach() for at, name in fit.step.held}
        for view, tensor in zip(graph.inputs, tensors, strict=False):
            sources[view.value] = tensor.detach()
        learnt = [held[name] for name in passes.parameters]
        learnt += [tensors[at] for at in passes.inputs]
        outputs = run_passes(Run(fit.programme, sources, fit.step.name, self._pending), learnt)
        return passes.returned.filled(outputs)

    def planned(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Fit:
        """The plan for a step on such inputs, beside what earlier steps have left.

        Raises `BudgetError`: nothing is within the budget.
        """
        _check(self._plain)
        key = _form_of(self._plain, args, kwargs)
        if key not in self._steps:
            found = step_of(self._plain, args, kwargs, self._used, self._optimizer)
            self._steps[key], vars(self)["_used"] = found
        step: Step = self._steps[key]
        gradients = [one.grad for one in self.parameters() if one.grad is not None]
        taken = sum(gradient.nbytes for gradient in gradients)
        taken += sum(pending.size_bytes for pending in self._pending)
        if (key, taken) not in self._fits:
            self._fits[key, taken] = step.plan(self._budget, taken)
        fit: Fit = self._fits[key, taken]
        vars(self)["_fit"] = fit
        return fit

    @property
    def fit(self) -> Fit:
        """The plan of the latest step; it says what that costs."""
        fit: Fit = self._fit
        return fit

    def train(self, mode: bool = True) -> Fitted:
        """Set the mode, of the plain module too."""
        self._plain.train(mode)
        self.training = mode
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return that of the plain module."""
        return self._plain.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load into the plain module."""
        return self._plain.load_state_dict(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """What else the plain module has."""
        if "_plain" not in vars(self):
            raise AttributeError(name)
        return getattr(vars(self)["_plain"], name)

    def __getstate__(self) -> dict[str, Any]:
        """Without plans: a copy makes its own."""
        own = {key: value for key, value in vars(self).items() if key not in _PLANS}
        return own

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._forget()

    def _forget(self) -> None:
        pending: weakref.WeakSet[Pending] = weakref.WeakSet()
        vars(self).update(_steps={}, _fits={}, _pending=pending)


_PLANS = ("_steps", "_fits", "_fit", "_pending")


def held_by(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and other tensors of a module by name."""
    return dict(module.named_parameters()) | held_tensors(module)


def _check(module: nn.Module) -> None:
    """Refuse what a plan would leave out."""
    for name, part in module.named_modules():
        hooks = [key for key, value in vars(part).items() if key in _HOOKS and value]
        if hooks:
            where = f"{name!r}" if name else "the module"
            raise UserError(
                f"{type(module).__name__} has a hook on {where}, which would see no numbers: "
                "remove it, or register it on what fit returns"
            )
    if torch.is_autocast_enabled("cpu"):
        raise UserError(
            "autocast is on, and a plan has the types of its module: leave autocast, or convert "
            "the module, as in model.bfloat16()"
        )
    elsewhere = {tensor.device.type for tensor in module.parameters()} - {"cpu"}
    if elsewhere:
        raise UserError(
            f"{type(module).__name__} is on {', '.join(sorted(elsewhere))}; fit plans for the CPU"
        )


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _form_of(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """What a trace depends on: forms of tensors, other arguments, modes, what is frozen."""
    leaves, tree = tree_flatten((args, dict(kwargs)))
    given = tuple(_form(leaf) if isinstance(leaf, Tensor) else repr(leaf) for leaf in leaves)
    modes = tuple(part.training for part in module.modules())
    held = tuple(map(_form, (*module.parameters(), *module.buffers())))
    return given, repr(tree), modes, held


def _form(tensor: Tensor) -> Hashable:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad
