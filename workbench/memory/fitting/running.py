"""Runs a programme of both passes as one function of autograd."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch.autograd.graph import disable_saved_tensors_hooks

from workbench.memory.executor import Registers, laid_out, lens, shown
from workbench.memory.fitting.programme import Programme
from workbench.memory.measured import ONE_AT_A_TIME
from workbench.profiles.graph import View
from workbench.profiles.private import is_legacy_batchedtensor, transforms_are_active
from workbench.utils.checks import UserError


class Pending:
    """Registers that a forward pass holds for its backward pass, `size_bytes` in all."""

    def __init__(
        self, known: Registers, watched: list[tuple[Tensor, int]], size_bytes: int
    ) -> None:
        self.known: Registers | None = known
        self.watched = watched
        self.size_bytes = size_bytes


class Run(NamedTuple):
    """A programme and the tensors that it reads: of the module, and given, by value."""

    programme: Programme
    sources: Registers
    name: str
    pending: Any  # a WeakSet of `Pending`


def check_differentiable(name: str, tensors: Iterable[Tensor]) -> None:
    """Refuse derivatives other than a backward pass's, and hooks on what autograd saves."""
    tangents = (unpack_dual(tensor).tangent for tensor in tensors)  # type: ignore[no-untyped-call]
    if transforms_are_active() or any(tangent is not None for tangent in tangents):
        raise UserError(
            f"{name} is within a budget and has no derivatives of torch.func or in forward mode: "
            f"{_PLAIN}"
        )
    try:
        with disable_saved_tensors_hooks(""):
            pass
    except RuntimeError:
        raise UserError(
            f"{name} is within a budget and is called inside torch.utils.checkpoint, or inside "
            "other hooks on saved tensors, which do not see what its plan keeps: call it outside; "
            "the plan itself computes again what is not kept"
        ) from None


_PLAIN = "use the module that was given to fit for them, which has the same parameters"


def _check_first_derivative(name: str, tangents: Sequence[Tensor | None]) -> None:
    are_batched = transforms_are_active() or any(
        tangent is not None and is_legacy_batchedtensor(tangent) for tangent in tangents
    )
    if torch.is_grad_enabled() or are_batched:
        raise UserError(
            f"{name} is within a budget and has no gradients of gradients (create_graph=True), and "
            f"none of several losses at once (is_grads_batched, vectorize=True): {_PLAIN}"
        )


def run_passes(run: Run, learnt: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Run the forward pass; `learnt` are the tensors whose gradients the graph gives."""
    outputs: tuple[Tensor, ...] = _Passes.apply(run, *learnt)  # type: ignore[no-untyped-call]
    return outputs


class _Passes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, *learnt: Tensor) -> tuple[Tensor, ...]:
        programme = run.programme
        known = dict(run.sources)
        began_s = time.perf_counter()
        for call in programme.forward:
            call(known)
        programme.spent.step_s += time.perf_counter() - began_s
        views = programme.passes.outputs
        outputs = tuple(_without_base(known[view.value], view, programme) for view in views)
        watched = list[tuple[Tensor, int]]()
        for view, output in zip(views, outputs, strict=True):
            if view.value in programme.kept:
                known[view.value] = _base(output, view, programme)
                watched.append((known[view.value], output._version))
            else:
                del known[view.value]
        for value in run.sources:
            del known[value]
        ctx.set_materialize_grads(False)
        late = [value for value in programme.late if value in run.sources]
        ctx.save_for_backward(*(run.sources[value] for value in late))
        ctx.digests = {
            value: _digest(run.sources[value]) for value in programme.read_again if value in late
        }
        made = {value: known[value] for value in programme.late if value not in run.sources}
        watched += [(tensor, tensor._version) for tensor in made.values()]
        returned = {view.value for view in views}
        own = [tensor.nbytes for value, tensor in known.items() if value not in returned]
        ctx.pending = Pending(known, watched, sum(own))
        with ONE_AT_A_TIME:  # who plans counts them
            run.pending.add(ctx.pending)
        ctx.programme, ctx.late, ctx.name = programme, late, run.name
        differentiable = programme.passes.returned.differentiable
        ctx.mark_non_differentiable(
            *(output for at, output in enumerate(outputs) if at not in differentiable)
        )
        return outputs

    @staticmethod
    def backward(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        _check_first_derivative(ctx.name, tangents)
        programme, pending = ctx.programme, ctx.pending
        known = pending.known
        saved = ctx.saved_tensors
        if known is None:
            raise UserError(
                f"{ctx.name}: a second backward pass of one forward pass; what it needs is gone, "
                "so run the forward pass again"
            )
        if any(tensor._version != version for tensor, version in pending.watched):
            raise RuntimeError(
                f"{ctx.name}: what the backward pass needs was modified by an in-place operation: "
                "of an output of the module, or of a buffer that it holds"
            )
        _check_used(ctx.name, programme, tangents)
        now = dict(zip(ctx.late, saved, strict=True))
        if any(_digest(now[value]) != digest for value, digest in ctx.digests.items()):
            raise UserError(
                f"{ctx.name}: an input or a weight was changed before the backward pass, by .data "
                "or in an array of NumPy that shares its memory: change it after the backward pass"
            )
        pending.known = None
        pending.size_bytes = 0
        known.update(now)
        passes = programme.passes
        for view, at in zip(passes.tangents, passes.used, strict=True):
            tangent = tangents[at]
            assert tangent is not None
            known[view.value] = laid_out(tangent, view)
        began_s = time.perf_counter()
        for call in programme.backward:
            call(known)
        programme.spent.step_s += time.perf_counter() - began_s
        programme.spent.steps += 1
        gradients = passes.graph.outputs[len(passes.outputs) :]
        return None, *(shown(known[view.value], view, programme.bases) for view in gradients)


def _digest(tensor: Tensor) -> int:
    """Hash of a tensor's bits, added up in columns: as fast as memory is read, and of their order.

    What has gaps in memory is copied to read it.
    """
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    order = sorted(range(real.dim()), key=real.stride().__getitem__, reverse=True)
    flat = real.detach().resolve_neg().permute(order).contiguous().view(-1)
    octets = flat.view(torch.uint8).numpy()
    whole = len(octets) // (8 * _COLUMNS) * 8 * _COLUMNS
    words = octets[:whole].view(np.int64).reshape(-1, _COLUMNS)
    return hash((words.sum(0).tobytes(), octets[whole:].tobytes()))


_COLUMNS = 1021
"""A prime number, so that rows of a tensor that change places change columns, too."""


def _without_base(held: Tensor, view: View, programme: Programme) -> Tensor:
    """An output as a tensor that is no view, so that it may be written in place."""
    seen = shown(held, view, programme.bases)
    own = torch.empty(0, dtype=seen.dtype)
    return own.set_(seen.untyped_storage(), seen.storage_offset(), seen.shape, seen.stride())


def _base(output: Tensor, view: View, programme: Programme) -> Tensor:
    """Register of an output's value, with the output's count of writes."""
    base = programme.bases[view.value]
    alias = output.detach()
    look = lens(base, view)
    return alias if look is None else look(alias)


def _check_used(name: str, programme: Programme, tangents: Sequence[Tensor | None]) -> None:
    used = tuple(at for at, tangent in enumerate(tangents) if tangent is not None)
    if used != tuple(sorted(programme.passes.used)):
        raise UserError(
            f"{name}: the loss uses returned tensors {list(used)}, and the plan is for those that "
            f"fit's loss uses, {sorted(programme.passes.used)}: give fit(…, loss=…) the loss that "
            "you train with"
        )
