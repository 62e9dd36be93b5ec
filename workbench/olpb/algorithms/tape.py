"""What a gradient passes through: the operators of one pass, with the numbers they had.

`record` runs a module once, with its loss, in double precision, in the mode that it is in, and on
real numbers, so control flow that depends on them is followed. A write in place makes another
value. Autograd, which records beside, tells which of what an operator reads carries a gradient: not
what was detached or computed without gradients. Its own backward pass is never run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
from workbench.graphs.graph import Operator, Recording, UntraceableError, View
from workbench.graphs.recorder import Recorder, tensors_in
from workbench.graphs.recording import check_has_parameters, explained, learning, real_copy
from workbench.olpb.algorithms.levels import Flow
from workbench.utils.checks import UserError, check_kind

Loss = Callable[[Any, Tensor], Tensor]
"""From what a module returns, and what is to be found, to a number."""


@dataclass(frozen=True, eq=False)
class Call:
    """An operator that a gradient passes through, with the tensors it was called with.

    Arguments are positional ones and those by name, with their numbers as they were before the
    call; `carrying` says which of the tensors among them, in their order, carry a gradient.
    """

    operator: Operator
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    results: tuple[Tensor, ...]
    carrying: tuple[int, ...]
    random_state: Tensor | None = None  # before an operator that draws from the generator

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
        """An argument, positional or by name."""
        args, kwargs = self.arguments
        return args[at] if len(args) > at else kwargs.get(name, default)

    @property
    def written_into(self) -> tuple[View, ...]:
        """What it reads and writes into: outside of these views, values stay as they are."""
        return tuple(self.operator.reads[at] for at in sorted(self._overwritten))

    @cached_property
    def _overwritten(self) -> frozenset[int]:
        ids = {id(tensor) for tensor in written(self.operator.function, *self.arguments)}
        return frozenset(at for at, tensor in enumerate(self.reads) if id(tensor) in ids)

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
        self,
        gradients: Mapping[int, Tensor],
        at: Mapping[int, Tensor] | None = None,
        *,
        batched: bool = False,
    ) -> dict[int, Tensor]:
        """Gradients of what it reads from those of its results, by local autograd.

        Of all that carry one, or of other tensors in the place of some, by which read they are.
        `batched` gradients have a first axis more, and so what is returned.
        """
        with learning():
            given = {read: self.reads[read] for read in self.carrying} if at is None else at
            leaves = {read: tensor.detach().requires_grad_() for read, tensor in given.items()}
            made = self.again(leaves)
            ends = [result for result in gradients if made[result].requires_grad]
            if not ends:
                return {read: torch.zeros_like(leaf) for read, leaf in leaves.items()}
            of_leaves = torch.autograd.grad(
                [made[result] for result in ends],
                list(leaves.values()),
                [gradients[result].to(made[result].dtype) for result in ends],
                is_grads_batched=batched,
                materialize_grads=True,
            )
        return dict(zip(leaves, of_leaves, strict=True))


@dataclass(frozen=True, eq=False)
class Tape:
    """A pass: its graph, the calls from the first weights to the loss, and the loss."""

    graph: Recording
    calls: tuple[Call, ...]
    parameters: Mapping[str, View]  # those that learn, and where they are in their storage
    loss: float

    @cached_property
    def makers(self) -> Mapping[int, int]:
        """By value, which of the calls makes it."""
        return {
            view.value: at for at, call in enumerate(self.calls) for view in call.operator.makes
        }

    @cached_property
    def flow(self) -> Flow:
        """Its calls without their numbers."""
        sources = (
            (*(call.operator.reads[at] for at in call.carrying), *call.written_into)
            for call in self.calls
        )
        return Flow(
            tuple(call.name for call in self.calls),
            tuple(call.operator.weighted for call in self.calls),
            tuple(frozenset(v.value for v in views if v.value in self.makers) for views in sources),
            self.makers,
            frozenset(view.value for view in self.graph.outputs),
        )

    @cached_property
    def sizes(self) -> Mapping[int, int]:
        """By value that a call makes or that is a parameter: how many numbers its storage has."""
        views = [view for call in self.calls for view in call.operator.makes]
        held, values = [*views, *self.parameters.values()], self.graph.values
        return {
            view.value: values[view.value].storage_bytes // getattr(torch, view.dtype).itemsize
            for view in held
        }

    def overwritten(self, call: Call) -> list[tuple[int, int, NDArray[np.int64]]]:
        """What a call writes into: the value before, the value after, and the places it writes.

        Without numbers that it only draws, which it returns none of.
        """
        storage_of = [value.storage for value in self.graph.values]
        made = {storage_of[view.value]: view.value for view in call.operator.makes}
        return [
            (view.value, made[storage_of[view.value]], places(view))
            for view in call.written_into
            if storage_of[view.value] in made
        ]


def places(view: View) -> NDArray[np.int64]:
    """Where the elements of a view, row by row, are in its storage."""
    offsets = np.array(view.offset, np.int64)
    for length, stride in zip(view.shape, view.strides, strict=True):
        offsets = np.add.outer(offsets, np.arange(length) * stride)
    return offsets.reshape(-1)


def written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Tensors that an operator of PyTorch writes into, by its schema."""
    schema = func._schema.arguments
    values = dict(zip((argument.name for argument in schema), args, strict=False)) | dict(kwargs)
    infos = {argument.name: argument.alias_info for argument in schema}
    return tensors_in([values.get(name) for name, info in infos.items() if info and info.is_write])


def record(
    module: nn.Module,
    x: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    y: Tensor,
    loss: Loss | None = None,
) -> Tape:
    """Run a copy of a module and its loss; see `gradients.scan_gradients`."""
    name = type(check_kind("module", module, nn.Module, "a module")).__name__
    check_has_parameters(name, module)
    _check_precision(name, module)
    copied = real_copy(name, module, "cpu").double()
    for part, original in zip(copied.modules(), module.modules(), strict=True):
        part.training = original.training
        # Tensors that are neither parameters nor buffers:
        apart = {key: held for key, held in vars(part).items() if isinstance(held, Tensor)}
        vars(part).update({key: _double(held) for key, held in apart.items()})
    names = tuple(x) if isinstance(x, Mapping) else ()
    if isinstance(x, Mapping):
        x = tuple(x.values())
    given = x if isinstance(x, list | tuple) else (x,)
    inputs = tuple(_double(check_kind("x", one, Tensor, "a tensor")) for one in given)
    parameters = dict(copied.named_parameters())
    target = _double(check_kind("y", y, Tensor, "a tensor"))
    if not target.numel():
        raise UserError(f"y has shape {tuple(target.shape)}; give at least one sample")
    recorder = _TapeRecorder(parameters, (*inputs, target))

    def forward(held: dict[str, Tensor], y: Tensor, *inputs: Tensor) -> Tensor:
        with explained(name, copied):
            args = ((), dict(zip(names, inputs, strict=True))) if names else (inputs,)
            returned = functional_call(copied, held, *args)
        return (loss or _loss_for(name, returned, y))(returned, y)

    held = {**parameters, **dict(copied.named_buffers())}
    with learning(), recorder:
        value = forward(held, target, *inputs)
    if not isinstance(value, Tensor) or value.numel() != 1:
        form = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise UserError(f"the loss of {name} is {form}; it must be a single number")
    if not torch.isfinite(value).all():
        raise UserError(
            f"the loss of {name} is {value.item():g}; gradients of it are no numbers. Look for "
            "weights or inputs that are not finite, or too large"
        )
    return recorder.tape(name, value)


def _check_precision(name: str, module: nn.Module) -> None:
    for key, tensor in module.named_parameters():
        if tensor.dtype not in (torch.float32, torch.float64):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise UserError(
                f"{key} of {name} is of {kind}; gradients are taken in float64, which autograd "
                "would not meet in less than float32: give module.float()"
            )


def _double(tensor: Tensor) -> Tensor:
    here = tensor.detach().cpu()
    return here.double() if here.is_floating_point() else here


def _loss_for(name: str, returned: Any, y: Tensor) -> Loss:
    """Cross entropy for classes, else squared errors; refuses a `y` that fits neither."""
    if not isinstance(returned, Tensor):
        raise UserError(f"{name} returns {type(returned).__name__}, no tensor: give loss=…")
    scores, given = tuple(returned.shape), tuple(y.shape)
    if y.is_floating_point():
        if scores != given:
            raise UserError(f"y has shape {given}, but {name} returns {scores}")
        return functional.mse_loss
    if len(scores) < 2 or given != (scores[0], *scores[2:]):
        raise UserError(
            f"y has shape {given} and holds whole numbers, classes; for what {name} returns, of "
            f"shape {scores}, it must be of shape {(*scores[:1], *scores[2:])}"
        )
    lowest, highest = int(y.min()), int(y.max())
    if lowest < 0 or highest >= scores[1]:
        raise UserError(
            f"y holds classes {lowest} to {highest}, but {name} tells {scores[1]} apart, from 0"
        )
    return lambda scores, y: functional.cross_entropy(scores, y.long())


class _TapeRecorder(Recorder):  # type: ignore[no-untyped-call]
    """Keeps the tensors of each operator, and which of them carry a gradient."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], inputs: Sequence[Tensor]) -> None:
        super().__init__(parameters, inputs)
        self._learnt = {
            name: self.view(held) for name, held in parameters.items() if held.requires_grad
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
        reads, is_learning = tensors_in((args, kwargs)), torch.is_grad_enabled()
        carrying = [at for at, read in enumerate(reads) if read.requires_grad and is_learning]
        changed = {_storage(tensor) for tensor in written(func, args, kwargs)}
        for storage in changed:
            self._keep(storage)
        held = tree_map_only(Tensor, _cloned(changed), (args, kwargs))
        draws = torch.Tag.nondeterministic_seeded in func.tags
        state = torch.get_rng_state() if draws and carrying else None
        number = len(self.operators)
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if carrying and len(self.operators) > number and self.operators[-1].makes:
            results = tuple(tensor.detach() for tensor in tensors_in(out))
            if any(map(torch.is_complex, (*results, *reads))):
                raise UntraceableError(f"{func} has complex numbers; gradients are of real ones")
            self._hold_call(Call(self.operators[-1], held, results, tuple(carrying), state))
        return out

    def _hold_call(self, call: Call) -> None:
        call = replace(call, arguments=tree_map_only(Tensor, Tensor.detach, call.arguments))
        for tensor in (*call.reads, *call.results):
            self._using.setdefault(_storage(tensor), set()).add(len(self._calls))
        self._calls.append(call)

    def _keep(self, storage: int) -> None:
        """Copy the tensors that are held of a storage, which is about to be written into."""
        for at in self._using.pop(storage, ()):
            call = self._calls[at]
            held = call.arguments, call.results
            arguments, results = tree_map_only(Tensor, _cloned({storage}), held)
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
            raise UserError(f"the loss of {name} depends on none of its parameters that learn")
        return Tape(graph, tuple(reversed(kept)), self._learnt, loss.item())

    def _check_gradients(self, name: str, loss: Tensor) -> None:
        """Refuse gradients that are not those of the operators."""
        behind = nodes_behind([loss]) if loss.requires_grad else ()
        for node in behind:
            if issubclass(type(node), BackwardCFunction):
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


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _cloned(storages: Collection[int]) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor.clone() if _storage(tensor) in storages else tensor
