"""A module that trains as a plain one does, within a budget."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path

from workbench.memory.fitting.loss import Loss, LossProfile
from workbench.memory.fitting.planning import Fit, Step, step_of
from workbench.memory.fitting.profile import Profile
from workbench.memory.fitting.running import Pending, Run, check_differentiable, run_passes
from workbench.memory.measured import ONE_AT_A_TIME
from workbench.profiles.copies import check_not_compiled, held_tensors
from workbench.profiles.private import HOOKS, share_parts
from workbench.profiles.recorder import tensors_in
from workbench.utils.checks import UserError, parse_budget


class Fitted(nn.Module):
    """A module within a budget; parameters, buffers, parts and names are those of the plain module.

    Other attributes and methods are those of `plain`. It is planned again for inputs of another
    form, for other modes, and once an attribute, a part, or what is frozen has changed: a counter
    is better kept outside the module. Without gradients the plain module runs.
    """

    def __init__(self, plans: Plans) -> None:
        super().__init__()
        plain = plans.module
        share_parts(self, plain)
        self._plans = plans
        self.training = plain.training

    @property
    def plain(self) -> nn.Module:
        """The module that was given to `fit`."""
        return self._plans.module

    @property
    def fit(self) -> Fit:
        """The plan of the latest step, with its price."""
        if self._plans.latest is None:
            raise UserError("a copy of a module within a budget is planned in its first step")
        return self._plans.latest

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs of the plain module."""
        tensors, held = tensors_in((args, kwargs)), held_by(self.plain)
        learns = any(tensor.requires_grad for tensor in (*tensors, *held.values()))
        if not (learns and torch.is_grad_enabled()):
            return self.plain(*args, **kwargs)
        check_differentiable(type(self.plain).__name__, (*tensors, *held.values()))
        with ONE_AT_A_TIME:
            fit = self._plans.plan(args, kwargs)
        passes, graph = fit.step.passes, fit.step.passes.graph
        sources = dict(graph.literals) | {at: held[name].detach() for at, name in fit.step.held}
        for view, tensor in zip(graph.inputs, tensors, strict=False):
            sources[view.value] = tensor.detach()
        learnt = [held[name] for name in passes.parameters]
        learnt += [tensors[at] for at in passes.inputs]
        run = Run(fit.programme, sources, fit.step.name, self._plans.pending)
        return passes.returned.filled(run_passes(run, learnt))

    def train(self, mode: bool = True) -> Fitted:
        """Set the mode, of the plain module too."""
        self.plain.train(mode)
        self.training = mode
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return that of the plain module."""
        return self.plain.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load into the plain module."""
        return self.plain.load_state_dict(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Refuse attributes and methods of the plain module, and say where they are."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_plans" in vars(self) and hasattr(self.plain, name):
                raise AttributeError(self._elsewhere(name, f".{name}")) from None
            raise

    def __getitem__(self, key: Any) -> Any:
        """Refuse parts by number or key, and say where they are."""
        raise TypeError(self._elsewhere("parts by number or name", "[…]"))

    def __len__(self) -> int:
        """Refuse to count parts, and say where they are."""
        raise TypeError(self._elsewhere("length", ", as in len(model.plain)"))

    def __bool__(self) -> bool:
        """Return true, as for a module without a length."""
        return True

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse attributes of the plain module, which would not see them change here."""
        if name not in vars(self) and "_plans" in vars(self) and name in vars(self.plain):
            raise UserError(
                f"{name} is an attribute of the {type(self.plain).__name__} within a budget: set "
                f"it there, as in model.plain.{name} = …"
            )
        super().__setattr__(name, value)

    def _elsewhere(self, what: str, where: str) -> str:
        name = type(self.plain).__name__
        return f"{name} within a budget has no {what}; the plain one has: use model.plain{where}"


class Plans:
    """Plans of a module's steps within a budget, by the form of their inputs.

    A copy makes its own.
    """

    def __init__(
        self, module: nn.Module, budget: str | int, loss: LossProfile | Loss, optimizer: str
    ) -> None:
        self.module, self.budget, self.loss, self.optimizer = module, budget, loss, optimizer
        self.latest: Fit | None = None
        self.pending: weakref.WeakSet[Pending] = weakref.WeakSet()
        self._steps: dict[Hashable, Step] = {}
        self._fits: dict[Hashable, Fit] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Plans, (self.module, self.budget, self.loss, self.optimizer)

    def plan(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], profile: Profile | None = None
    ) -> Fit:
        """The plan for a step on such inputs, beside gradients and passes of earlier steps.

        A `profile` is of a saved plan; by default operators are measured.
        Raises `BudgetError`: nothing is within the budget.
        """
        module = self.module
        check_module(module, (args, kwargs))
        key = _form_of(module, args, kwargs)
        if key not in self._steps:
            found = step_of(module, args, kwargs, self.loss, self.optimizer, profile=profile)
            self.loss = found.loss
            _remember(self._steps, key, found)
        step = self._steps[key]
        self.budget = parse_budget(self.budget, lambda: step.plain_bytes)  # once in bytes
        gradients = [
            parameter.grad
            for parameter in module.parameters()
            if parameter.is_leaf and parameter.grad is not None
        ]
        taken = sum(gradient.nbytes for gradient in gradients)
        taken += sum(pending.size_bytes for pending in self.pending)
        if (key, taken) not in self._fits:
            _remember(self._fits, (key, taken), step.plan(self.budget, taken))
        self.latest = self._fits[key, taken]
        return self.latest


def plain_of(module: nn.Module) -> nn.Module:
    """The plain module of one within a budget; any other as it is."""
    return module.plain if isinstance(module, Fitted) else module


KEPT = 8
"""Forms of a step that are remembered with their plans, and numbers of bytes taken before one."""


def _remember(known: dict[Any, Any], key: Hashable, value: object) -> None:
    """Keep a value, and of those before it the latest."""
    while len(known) >= KEPT:
        del known[next(iter(known))]
    known[key] = value


def held_by(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and other tensors of a module by name."""
    return dict(module.named_parameters()) | held_tensors(module)


def check_module(module: nn.Module, inputs: object) -> None:
    """Refuse hooks and other parts that a plan would leave out, and other devices than the CPU."""
    check_not_compiled(type(module).__name__, module)
    for name, part in module.named_modules():
        if name and isinstance(part, Fitted):
            raise UserError(
                f"{type(module).__name__} has a part {name!r} that is within a budget already: "
                "put the module that was given to fit in its place, and fit the whole"
            )
        hooks = [key for key, value in vars(part).items() if key in HOOKS and value]
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
    for what, tensors in (
        (f"{type(module).__name__} is", [*module.parameters(), *module.buffers()]),
        ("inputs are", tensors_in(inputs)),
    ):
        elsewhere = {tensor.device.type for tensor in tensors} - {"cpu"}
        if elsewhere:
            raise UserError(f"{what} on {', '.join(sorted(elsewhere))}; fit plans for the CPU")


def _form_of(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """Key of a trace: forms of tensors, other arguments, and attributes of the module's parts."""
    leaves, tree = tree_flatten((args, dict(kwargs)))
    for at, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor | _PLAIN):
            path, _ = tree_flatten_with_path((args, dict(kwargs)))[0][at]
            raise UserError(
                f"the argument {keystr(path[1:])} of {type(module).__name__} is of "
                f"{type(leaf).__name__}, and a plan would not see it change: give it as a tensor"
            )
    met: dict[int, int] = {}
    held = tuple((name, _key(tensor, met)) for name, tensor in held_by(module).items())
    return tuple(_key(leaf, met) for leaf in leaves), repr(tree), held, _key(module, met)


_PLAIN = (
    bool | int | float | complex | str | bytes | None | np.generic
    | torch.dtype | torch.device | torch.layout | torch.memory_format
)  # fmt: skip
_OF_ANY = vars(nn.Module()).keys() - {"training"}


def _key(value: Any, met: dict[int, int]) -> Hashable:
    """Key of a value that a forward pass may read; `met` numbers objects seen before."""
    if isinstance(value, _PLAIN):
        return type(value), repr(value)  # 1, 1.0 and True are equal; nan is not nan
    if isinstance(value, Tensor):
        bits = (value.is_conj(), value.is_neg())
        return value.shape, value.stride(), value.dtype, value.requires_grad, bits
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes()
    if id(value) in met:
        return met[id(value)]
    met[id(value)] = len(met)
    return _inside(value, met)


def _inside(value: Any, met: dict[int, int]) -> Hashable:
    """Key of a module's attributes, or of a collection's items.

    Of any other object, only numbers and texts count: a trainer, which a module may hold, counts
    its steps further below.
    """
    if isinstance(value, nn.Module):
        return tuple(
            (name, type(part), key, _key(attribute, met))
            for name, part in value.named_modules(remove_duplicate=False)
            for key, attribute in vars(part).items()
            if key not in _OF_ANY
        )
    if isinstance(value, Mapping):
        return type(value), *((_key(key, met), _key(one, met)) for key, one in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return type(value), *(_key(item, met) for item in value)
    attributes = getattr(value, "__dict__", {}).items()
    return _Itself(value), *(
        (key, type(attribute), repr(attribute))
        for key, attribute in attributes
        if isinstance(attribute, _PLAIN)
    )


@dataclass(frozen=True)
class _Itself:
    """An object, equal to itself alone."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
