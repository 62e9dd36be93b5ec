"""Runs a module once, with its loss, and keeps what a gradient passes through.

It runs in double precision, in the mode that it is in, and on real numbers, so control flow that
depends on them is followed. A write in place makes another value. Autograd, which records beside,
tells which of what an operator reads carries a gradient: not what was detached or computed without
gradients. Its own backward pass is never run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.func import functional_call
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from workbench.checks import check_kind
from workbench.errors import UserError
from workbench.graphs.autograd_nodes import nodes_behind
from workbench.graphs.graph import UntraceableError
from workbench.graphs.recorder import Recorder, tensors_in
from workbench.graphs.recording import check_has_parameters, explained, learning, real_copy
from workbench.olpb.algorithms.tape import Call, Tape, written

Loss = Callable[[Any, Tensor], Tensor]


def record(
    module: nn.Module, x: Tensor | Sequence[Tensor], y: Tensor, loss: Loss | None = None
) -> Tape:
    """Run a copy of a module and its loss; see `gradients.scan_gradients`."""
    name = type(check_kind("module", module, nn.Module, "a module")).__name__
    check_has_parameters(name, module)
    _check_precision(name, module)
    copied = real_copy(name, module, "cpu").double()
    for part, original in zip(copied.modules(), module.modules(), strict=True):
        part.training = original.training
    for part in copied.modules():  # tensors that are neither parameters nor buffers
        held_apart = {key: one for key, one in vars(part).items() if isinstance(one, Tensor)}
        vars(part).update({key: _double(one) for key, one in held_apart.items()})
    inputs = tuple(_double(check_kind("x", one, Tensor, "a tensor")) for one in _several(x))
    parameters = dict(copied.named_parameters())
    target = _double(check_kind("y", y, Tensor, "a tensor"))
    if not target.numel():
        raise UserError(f"y has shape {tuple(target.shape)}; give at least one sample")
    recorder = _TapeRecorder(parameters, (*inputs, target))

    def forward(held: dict[str, Tensor], y: Tensor, *inputs: Tensor) -> Tensor:
        with explained(name, copied):
            found = functional_call(copied, held, inputs)
        return (loss or _loss_for(name, found, y))(found, y)

    held = {**parameters, **dict(copied.named_buffers())}
    with learning(), recorder:
        value = forward(held, target, *inputs)
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise UserError(f"the loss of {name} is {_form(value)}; it must be a single number")
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


def _several(x: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return x if isinstance(x, list | tuple) else (x,)


def _double(tensor: Tensor) -> Tensor:
    here = tensor.detach().cpu()
    return here.double() if here.is_floating_point() else here


def _form(value: object) -> str:
    return f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)


def _loss_for(name: str, found: Any, y: Tensor) -> Loss:
    """Cross entropy for classes, else squared errors; refuses a `y` that fits neither."""
    if not isinstance(found, Tensor):
        raise UserError(f"{name} returns {type(found).__name__}, no tensor: give loss=…")
    scores, given = tuple(found.shape), tuple(y.shape)
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
    return lambda found, y: functional.cross_entropy(found, y.long())


class _TapeRecorder(Recorder):  # type: ignore[no-untyped-call]
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
        changed = written(func, args, kwargs)
        for tensor in changed:
            self._keep(tensor.untyped_storage()._cdata)
        held = tree_map_only(Tensor, _cloned(changed), (args, kwargs))
        draws = torch.Tag.nondeterministic_seeded in func.tags
        state = torch.get_rng_state() if draws and carrying else None
        number = len(self.operators)
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if carrying and len(self.operators) > number and self.operators[-1].makes:
            results = tuple(one.detach() for one in tensors_in(out))
            if any(one.is_complex() for one in (*results, *tensors_in((args, kwargs)))):
                raise UntraceableError(f"{func} has complex numbers; gradients are of real ones")
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


def _cloned(changed: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    storages = {tensor.untyped_storage()._cdata for tensor in changed}
    return lambda one: one.clone() if one.untyped_storage()._cdata in storages else one
