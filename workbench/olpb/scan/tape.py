"""What a gradient passes through: the operators of one pass, with the numbers they computed with.

A module is run once, in double precision and in the mode that it is in, under a `Recorder`. On real
numbers, so control flow that depends on them is followed. A write in place makes another value.
Autograd, which records beside it, tells which of what an operator reads carries a gradient: not
what was detached or computed without gradients. Its own backward pass is never run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.func import functional_call
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from workbench.graphs.autograd_nodes import nodes_behind
from workbench.graphs.graph import Operator, OperatorGraph, UntraceableError, View
from workbench.graphs.recorder import Recorder, tensors_in
from workbench.graphs.recording import check_has_parameters, explained, learning, real_copy

Loss = Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Call:
    """An operator that a gradient passes through, with the tensors it was called with.

    Attributes
    ----------
    number, operator
        In the graph.
    arguments
        Positional ones and those by name, with their numbers as they were before the call.
    carrying
        Which of the tensors among them, in their order, carry a gradient.
    random_state
        Of the generator before an operator that draws from it.
    """

    number: int
    operator: Operator
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    results: tuple[Tensor, ...]
    carrying: tuple[int, ...]
    random_state: Tensor | None = None

    @property
    def name(self) -> str:
        """As PyTorch calls it."""
        return self.operator.name

    @cached_property
    def reads(self) -> tuple[Tensor, ...]:
        """Tensors among the arguments."""
        return tuple(tensors_in(self.arguments))

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments."""
        return self.arguments[0]

    def argument(self, at: int, name: str, default: Any = None) -> Any:
        """One argument, positional or by name."""
        args, kwargs = self.arguments
        return args[at] if len(args) > at else kwargs.get(name, default)

    @property
    def written_into(self) -> tuple[View, ...]:
        """What it reads and writes into: outside of these views, values stay as they are."""
        if not self.operator.function._schema.is_mutable:
            return ()
        return tuple(
            self.operator.reads[at] for at in range(len(self.reads)) if at in self._overwritten
        )

    @cached_property
    def _overwritten(self) -> frozenset[int]:
        args, kwargs = self.arguments
        ids = {id(one) for one in _written(self.operator.function, args, kwargs)}
        return frozenset(at for at, one in enumerate(self.reads) if id(one) in ids)

    def again(self, replaced: Mapping[int, Tensor]) -> tuple[Tensor, ...]:
        """Call the operator with other tensors in the place of some that it reads."""
        numbers = iter(range(len(self.reads)))

        def other(tensor: Tensor) -> Tensor:
            number = next(numbers)
            tensor = replaced.get(number, tensor)
            return tensor.clone() if number in self._overwritten else tensor

        args, kwargs = tree_map_only(Tensor, other, self.arguments)
        if self.random_state is None:
            return tuple(tensors_in(self.operator.function(*args, **kwargs)))
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.random_state)
            return tuple(tensors_in(self.operator.function(*args, **kwargs)))

    def backward(
        self, gradients: Mapping[int, Tensor], at: Mapping[int, Tensor] | None = None
    ) -> dict[int, Tensor]:
        """Gradients of what it reads from those of its results, by local autograd.

        Of all that carry one, or of other tensors in the place of some, by which read they are.
        """
        with learning():
            given = {one: self.reads[one] for one in self.carrying} if at is None else at
            leaves = {one: tensor.detach().requires_grad_() for one, tensor in given.items()}
            made = self.again(leaves)
            ends = [one for one in gradients if made[one].requires_grad]
            found = torch.autograd.grad(
                [made[one] for one in ends],
                list(leaves.values()),
                [gradients[one].to(made[one].dtype) for one in ends],
                allow_unused=True,
            )
        each = zip(leaves.items(), found, strict=True)
        return {one: torch.zeros_like(leaf) if got is None else got for (one, leaf), got in each}


@dataclass(frozen=True, eq=False)
class Tape:
    """One pass: its graph, the calls from the first weights to the loss, and the loss.

    Attributes
    ----------
    parameters
        Those that learn, by name, and where they are in their storage.
    """

    graph: OperatorGraph
    calls: tuple[Call, ...]
    parameters: Mapping[str, View]
    loss: float

    @cached_property
    def makers(self) -> Mapping[int, int]:
        """By value, which of the calls makes it."""
        return {
            view.value: at for at, call in enumerate(self.calls) for view in call.operator.makes
        }

    @cached_property
    def sources(self) -> tuple[frozenset[int], ...]:
        """By call, the values of other calls that a gradient passes to from it."""
        return tuple(
            frozenset(
                view.value
                for view in (
                    *(call.operator.reads[at] for at in call.carrying),
                    *call.written_into,
                )
                if view.value in self.makers
            )
            for call in self.calls
        )

    @cached_property
    def sizes(self) -> Mapping[int, int]:
        """By value that a call makes or that is a parameter: how many numbers its storage has."""
        views = [view for call in self.calls for view in call.operator.makes]
        return {
            view.value: self.graph.values[view.value].storage_bytes
            // getattr(torch, view.dtype).itemsize
            for view in (*views, *(self.parameters.values()))
        }

    def overwritten(self, call: Call) -> list[tuple[int, int, NDArray[np.int64]]]:
        """What a call writes into: the value before, the value after, and the places it writes."""
        storages = {
            self.graph.values[view.value].storage: view.value for view in call.operator.makes
        }
        return [
            (view.value, storages[self.graph.values[view.value].storage], places(view))
            for view in call.written_into
        ]


def places(view: View) -> NDArray[np.int64]:
    """Where the elements of a view, row by row, are in its storage."""
    found = np.full(view.shape, view.offset, np.int64)
    for axis, (length, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        along = np.arange(length) * stride
        found += along.reshape([-1] + [1] * (len(view.shape) - axis - 1))
    return found.reshape(-1)


def record(
    module: nn.Module, x: Tensor | Sequence[Tensor], y: Tensor, loss: Loss | None = None
) -> Tape:
    """Run a copy of a module and its loss; see `workbench.olpb.scan.gradients.scan_gradients`."""
    name = type(module).__name__
    check_has_parameters(name, module)
    _check_precision(name, module)
    copied = real_copy(name, module, "cpu").double()
    for part, original in zip(copied.modules(), module.modules(), strict=True):
        part.training = original.training
    inputs = tuple(_double(one) for one in ((x,) if isinstance(x, Tensor) else x))
    parameters = dict(copied.named_parameters())
    target = _double(y)
    recorder = _TapeRecorder(parameters, (*inputs, target))

    def forward(held: dict[str, Tensor], y: Tensor, *inputs: Tensor) -> Tensor:
        with explained(name, copied):
            found = functional_call(copied, held, inputs)
        return (loss or _loss_for(name, found, y))(found, y)

    held = {**parameters, **dict(copied.named_buffers())}
    with learning(), recorder:
        value = forward(held, target, *inputs)
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise ValueError(f"the loss of {name} is {_form(value)}; it must be a single number")
    if not torch.isfinite(value).all():
        raise ValueError(
            f"the loss of {name} is {value.item():g}; gradients of it are no numbers. Look for "
            "weights or inputs that are not finite, or too large"
        )
    return recorder.tape(name, value)


def _check_precision(name: str, module: nn.Module) -> None:
    for key, tensor in module.named_parameters():
        if tensor.dtype not in (torch.float32, torch.float64):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ValueError(
                f"{key} of {name} is of {kind}; gradients are taken in float64, which autograd "
                "would not meet in less than float32: give module.float()"
            )


def _double(tensor: Tensor) -> Tensor:
    return tensor.detach().double() if tensor.is_floating_point() else tensor.detach()


def _form(value: object) -> str:
    return f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)


def _loss_for(name: str, found: Any, y: Tensor) -> Loss:
    """Cross entropy for classes, else squared errors; refuses a `y` that fits neither."""
    if not isinstance(found, Tensor):
        raise ValueError(f"{name} returns {type(found).__name__}, no tensor: give loss=…")
    scores, given = tuple(found.shape), tuple(y.shape)
    if y.is_floating_point():
        if scores != given:
            raise ValueError(f"y has shape {given}, but {name} returns {scores}")
        return functional.mse_loss
    if len(scores) < 2 or given != (scores[0], *scores[2:]):
        raise ValueError(
            f"y has shape {given} and holds whole numbers, classes; for what {name} returns, of "
            f"shape {scores}, it must be of shape {(*scores[:1], *scores[2:])}"
        )
    lowest, highest = int(y.min()), int(y.max())
    if lowest < 0 or highest >= scores[1]:
        raise ValueError(
            f"y holds classes {lowest} to {highest}, but {name} tells {scores[1]} apart, from 0"
        )
    return functional.cross_entropy


class _TapeRecorder(Recorder):
    """Keeps the tensors of each operator, and which of them carry a gradient."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], inputs: Sequence[Tensor]) -> None:
        super().__init__(parameters, inputs)
        self._learnt = {
            name: self.view(one) for name, one in parameters.items() if one.requires_grad
        }
        self._calls: list[Call] = []
        self._using: dict[int, set[int]] = {}  # by storage, the calls that hold tensors of it

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        carrying = [at for at, one in enumerate(tensors_in((args, kwargs))) if one.requires_grad]
        carrying = carrying if torch.is_grad_enabled() else []
        written = _written(func, args, kwargs)
        for tensor in written:
            self._keep(tensor.untyped_storage()._cdata)
        held = tree_map_only(Tensor, _cloned(written), (args, kwargs))
        draws = torch.Tag.nondeterministic_seeded in func.tags
        state = torch.get_rng_state() if draws and carrying else None
        number = len(self.operators)
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if carrying and len(self.operators) > number and self.operators[-1].makes:
            results = tuple(one.detach() for one in tensors_in(out))
            self._hold_call(Call(number, self.operators[-1], held, results, tuple(carrying), state))
        return out

    def _hold_call(self, call: Call) -> None:
        call = replace(call, arguments=tree_map_only(Tensor, Tensor.detach, call.arguments))
        for tensor in (*call.reads, *call.results):
            self._using.setdefault(tensor.untyped_storage()._cdata, set()).add(len(self._calls))
        self._calls.append(call)

    def _keep(self, storage: int) -> None:
        """Copy the tensors that are held of a storage, which is about to be written into."""

        def kept(tensor: Tensor) -> Tensor:
            return tensor.clone() if tensor.untyped_storage()._cdata == storage else tensor

        for at in self._using.pop(storage, ()):
            call = self._calls[at]
            arguments, results = tree_map_only(Tensor, kept, (call.arguments, call.results))
            self._calls[at] = replace(call, arguments=arguments, results=results)

    def tape(self, name: str, loss: Tensor) -> Tape:
        """Calls that the loss depends on."""
        graph = self.graph([loss])
        self._check_gradients(name, loss)
        needed, kept = {graph.outputs[0].value}, list[Call]()
        for call in reversed(self._calls):
            if any(view.value in needed for view in call.operator.makes):
                needed |= {call.operator.reads[at].value for at in call.carrying}
                needed |= {view.value for view in call.written_into}
                kept.append(call)
        if not kept:
            raise ValueError(f"the loss of {name} depends on none of its parameters that learn")
        return Tape(graph, tuple(reversed(kept)), self._learnt, loss.item())

    def _check_gradients(self, name: str, loss: Tensor) -> None:
        """Refuse gradients that are not those of the operators."""
        behind = nodes_behind([loss]) if loss.requires_grad else ()
        for node in behind:
            if isinstance(node, BackwardCFunction):
                raise UntraceableError(
                    f"{name} has a gradient of its own, {type(node).__name__}, which its "
                    "operators do not tell"
                )
        carry = {view.value for view in self._learnt.values()}
        for call in self._calls:
            for at in call.carrying:
                if call.operator.reads[at].value not in carry:
                    raise UntraceableError(
                        f"{name} writes in place, without a gradient, into what {call.name} reads"
                    )
            carry |= {view.value for view in call.operator.makes}


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Tensors that an operator writes into."""
    names = [one.name for one in func._schema.arguments if one.alias_info and one.alias_info.is_write]
    given = dict(zip((one.name for one in func._schema.arguments), args, strict=False)) | dict(kwargs)
    return tensors_in([given.get(name) for name in names])


def _cloned(written: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    storages = {tensor.untyped_storage()._cdata for tensor in written}
    return lambda one: one.clone() if one.untyped_storage()._cdata in storages else one
