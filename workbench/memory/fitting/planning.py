"""What a module's step holds, and the plan of it within a budget."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from workbench.graphs.functional import default_loss
from workbench.graphs.graph import View
from workbench.graphs.passes import Passes, Returned, Strides, trace_passes
from workbench.graphs.private import storage_key
from workbench.graphs.recorder import tensors_in
from workbench.graphs.recording import as_compiled, held_tensors
from workbench.memory.dataflow import dataflow
from workbench.memory.executor import bases_of
from workbench.memory.fitting.flow import Around, PassesFlow, passes_flow
from workbench.memory.fitting.profile import Profile, digest_of, profiled
from workbench.memory.fitting.programme import Programme, compiled, fastest, is_met
from workbench.memory.lifetimes import lifetimes
from workbench.memory.measured import allocations
from workbench.memory.process import OPTIMIZERS
from workbench.memory.recomputation import BudgetError, least_bytes, least_room
from workbench.utils.checks import UserError, choose
from workbench.utils.files import expanded, write_text
from workbench.utils.numbers import bytes_as_text

Loss = Callable[[Any], Tensor]
MARGIN_BYTES = 1024
"""For single numbers: the loss, and what PyTorch makes of it."""


FORMAT = "workbench plan within a budget, 1"


def sha256_of(saved: Mapping[str, Any]) -> str:
    """Digest of the fields of a saved plan, so that a damaged one is noticed."""
    return hashlib.sha256(json.dumps(saved).encode()).hexdigest()


@dataclass(frozen=True)
class Used:
    """What a loss was seen to do with what a module returns.

    A gradient is laid out ``like`` the tensor, ``contiguous`` or ``expanded`` from one number.
    """

    gradients: Mapping[int, str]  # layouts, by number of a returned tensor that has a gradient
    share: float  # bytes that the loss allocates, in both directions, over those returned

    def strides(self, outputs: Sequence[Tensor]) -> dict[int, Strides]:
        """Strides of gradients of outputs, which may be fewer once attributes have changed."""
        made: dict[str, Callable[[Tensor], Strides]] = {
            "like": Tensor.stride,
            "contiguous": lambda one: torch.empty(one.shape, device="meta").stride(),
            "expanded": lambda one: (0,) * one.dim(),
        }
        known = {at: one for at, one in self.gradients.items() if at < len(outputs)}
        return {at: made[layout](outputs[at]) for at, layout in known.items()}


def used_by(loss: Loss, returned: Returned, outputs: Sequence[Tensor]) -> Used:
    """Run a loss on numbers of the form of what a module returns, and see what it allocates."""
    seen: dict[int, str] = {}

    def run() -> None:
        value = value_of(loss, returned.filled(tensors))
        found = torch.autograd.grad(value, [tensors[at] for at in learnt], allow_unused=True)
        for at, gradient in zip(learnt, found, strict=True):
            if gradient is not None:
                seen[at] = _layout(gradient, tensors[at])

    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        tensors = [
            torch.empty_strided(one.shape, one.stride(), dtype=one.dtype).zero_() for one in outputs
        ]
        learnt = returned.differentiable
        for at in learnt:
            tensors[at].requires_grad_()
        (allocated,) = allocations([run])
    return Used(seen, allocated / max(1, sum(tensor.nbytes for tensor in tensors)))


def _layout(gradient: Tensor, like: Tensor) -> str:
    if gradient.stride() == like.stride():
        return "like"
    return "contiguous" if any(gradient.stride()) else "expanded"


def value_of(loss: Loss, returned: Any) -> Tensor:
    """The loss of what a module returns; refuse what is not a number to learn from."""
    try:
        value = loss(returned)
    except Exception as error:
        raise UserError(
            f"the loss fails on the {type(returned).__name__} that the module returns: "
            f"{type(error).__name__}: {error}. It is called with that alone; labels are its own, "
            "as in loss=lambda outputs: cross_entropy(outputs, labels)"
        ) from error
    if not isinstance(value, Tensor) or value.numel() != 1:
        given = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise UserError(f"the loss is of {given}; it must be a tensor of one number, as a mean is")
    if not value.requires_grad:
        raise UserError(
            "the loss has no gradient: compute it from what the module returns, by PyTorch and "
            "without detach"
        )
    return value


def usual_loss(returned: Any) -> Tensor:
    """The loss that a module returns as ``loss``; of scores that with classes; else the sum."""
    own = returned.get("loss") if isinstance(returned, Mapping) else getattr(returned, "loss", None)
    if isinstance(own, Tensor):
        return own
    first, *others = tensors_in(returned)
    if others or first.dim() < 2 or first.shape[-1] < 2:
        return default_loss(returned, first)
    scores = first.flatten(0, -2)
    return default_loss(scores, torch.zeros(len(scores), dtype=torch.int64))


@dataclass(frozen=True, eq=False)
class Step:
    """A step of training of a module on inputs of one form: what it holds, whatever the plan."""

    name: str
    passes: Passes
    flow: PassesFlow
    bases: Mapping[int, View]
    held: tuple[tuple[int, str], ...]
    beside: Mapping[str, int]  # bytes of the module, its inputs and the optimiser's state
    profile: Profile
    used: Used
    optimizer: str

    @property
    def held_bytes(self) -> int:
        """Of what is there whatever the plan."""
        return sum(self.beside.values())

    @cached_property
    def plain_bytes(self) -> int:
        """Of a step in the module's own order in which nothing is computed again, as PyTorch's."""
        flow = self.flow.flow
        own_order = range(len(flow.steps))
        return lifetimes(flow, own_order).bound_bytes + self.held_bytes + MARGIN_BYTES

    def plan(self, budget_bytes: int, taken_bytes: int = 0) -> Fit:
        """The fastest plan found within a budget, of which some bytes are taken."""
        beside = self.held_bytes + taken_bytes + MARGIN_BYTES
        try:
            found = fastest(self.flow, budget_bytes - beside)
        except BudgetError:
            least = self.least_bytes + taken_bytes
            held = (
                f" beside {bytes_as_text(taken_bytes)} of earlier gradients and passes"
                if taken_bytes
                else ""
            )
            raise BudgetError(
                f"{self.name} does not train within {bytes_as_text(budget_bytes)}{held}: with "
                f"recomputation, at least {bytes_as_text(least, up=True)}: {self._parts()}",
                least,
            ) from None
        return Fit(self, budget_bytes, compiled(self.passes, found, self.bases), beside)

    def is_within(self, budget_bytes: int) -> bool:
        """Whether there is a plan within a budget."""
        return is_met(self.flow, budget_bytes - self.held_bytes - MARGIN_BYTES)

    def _parts(self) -> str:
        """What the least consists of, in words."""
        flow = self.flow.flow
        used = [int(flow.sizes[[*{*step.reads, *step.makes}]].sum()) for step in flow.steps]
        largest = max(range(len(used)), key=used.__getitem__)
        gradients = self.passes.graph.outputs[len(self.passes.outputs) :]
        beside = [f"{name} {bytes_as_text(size)}" for name, size in self.beside.items() if size]
        learnt = bytes_as_text(sum(view.size_bytes for view in gradients))
        return (
            f"{', '.join(beside)}, gradients {learnt}, and {bytes_as_text(used[largest])} that "
            f"{flow.steps[largest].name} alone reads, makes and allocates. "
            "A smaller batch needs less of the last: memory.largest_batch finds one"
        )

    @cached_property
    def least_bytes(self) -> int:
        """Of the smallest budget found that is met, to 2 %."""
        beside = self.held_bytes + MARGIN_BYTES
        most = self.plain_bytes - beside
        return least_room(self.flow.flow, most, partial(is_met, self.flow)) + beside


@dataclass(frozen=True, eq=False)
class Fit:
    """A plan of a step within a budget."""

    step: Step
    budget_bytes: int
    programme: Programme
    beside_bytes: int

    @property
    def peak_bytes(self) -> int:
        """Most bytes held in a step, the module's and the optimiser's among them."""
        return self.programme.peak_bytes + self.beside_bytes

    @property
    def step_s(self) -> float:
        """Seconds of both passes, of operators as they were measured one by one."""
        return self.programme.seconds

    @property
    def once_s(self) -> float:
        """Of these, seconds without what is computed again."""
        return self.programme.seconds - self.programme.seconds_again

    @property
    def again_s(self) -> float:
        """Of these, seconds of what is computed again."""
        return self.programme.seconds_again

    def __repr__(self) -> str:
        used, budget, plain = map(
            bytes_as_text, (self.peak_bytes, self.budget_bytes, self.step.plain_bytes)
        )
        return (
            f"Fit({self.step.name}: {used} used of a {budget} budget (plain: {plain}), "
            f"{self._price()})"
        )

    def _price(self) -> str:
        """What recomputing takes: in the steps so far, or before them by operators run alone."""
        if not self.again_s:
            return "nothing recomputed"
        spent = self.programme.spent
        if not spent.steps:
            return (
                f"recomputing about {self.again_s:.2g} s a step, {self.again_s / self.once_s:.0%} "
                "more, by operators timed alone (after a step: as timed in it)"
            )
        again_s, step_s = spent.again_s / spent.steps, spent.step_s / spent.steps
        return (
            f"recomputing took {again_s:.2g} s of {step_s:.2g} s a step, "
            f"{again_s / (step_s - again_s):.0%} more"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was measured and the budget to a small file of JSON, for `load_fit`."""
        used = {str(at): layout for at, layout in self.step.used.gradients.items()}
        saved = {
            "format": FORMAT,
            "budget_bytes": self.budget_bytes,
            "optimizer": self.step.optimizer,
            "gradients": used,
            "loss_share": self.step.used.share,
            "graph": self.step.profile.digest,
            "seconds": self.step.profile.seconds,
            "scratch_bytes": self.step.profile.scratch_bytes,
        }
        write_text(expanded(path), json.dumps(saved | {"sha256": sha256_of(saved)}))


def step_of(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    used: Used | Loss,
    optimizer: str,
    *,
    timed: bool = True,
    profile: Profile | None = None,
    most_bytes: float = float("inf"),
) -> tuple[Step, Used]:
    """Trace a step of training, measure its operators, and count what it holds.

    With a `profile` from before, nothing is run. Raises `UserError` where it is of another graph;
    `BudgetError` before any operator runs, where what one reads and makes is above `most_bytes`.
    """
    name = type(module).__name__
    seen: list[Used] = []

    def gradients(returned: Returned, outputs: Sequence[Tensor]) -> Mapping[int, Strides]:
        seen.append(used if isinstance(used, Used) else used_by(used, returned, outputs))
        learnt = set(returned.differentiable)  # fewer, once parameters are frozen
        return {at: form for at, form in seen[-1].strides(outputs).items() if at in learnt}

    passes = as_compiled(partial(trace_passes, name, module, args, kwargs, gradients))
    graph = passes.graph
    named = dict(module.named_parameters()) | held_tensors(module)
    given = tensors_in((args, kwargs))
    held = tuple(
        (at, value.name)
        for at, value in enumerate(graph.values)
        if value.name and value.origin != "input"
    )
    sources = {at: named[key] for at, key in held} | dict(graph.written_down)
    bases = bases_of(graph, sources)
    chosen = choose("optimizer", optimizer, OPTIMIZERS)
    trained = [named[key].nbytes for key in passes.parameters]
    around = Around(
        round(seen[0].share * sum(view.size_bytes for view in passes.outputs)),
        chosen.scratch_bytes(trained),
    )
    own_bytes = storage_bytes(named.values())
    beside = {
        "parameters and buffers": own_bytes,
        "inputs": storage_bytes([*named.values(), *given]) - own_bytes,
        f"optimizer state ({optimizer})": _state_bytes(chosen.state, trained),
    }
    least = least_bytes(dataflow(graph, 1)) + sum(beside.values())
    if least > most_bytes:
        raise BudgetError(f"one operator of {name} needs {bytes_as_text(least, up=True)}", least)
    if profile is None:
        profile = profiled(graph, bases, timed=timed)
    elif profile.digest != digest_of(graph):
        raise UserError(
            f"the plan is not for {name} on these inputs: it was saved of another module, for "
            "another batch, or by another version of PyTorch; plan again by memory.fit"
        )
    flow = passes_flow(passes, profile, around)
    return Step(name, passes, flow, bases, held, beside, profile, seen[0], optimizer), seen[0]


def _state_bytes(copies: int, trained: Sequence[int]) -> int:
    """Of an optimiser: copies of the parameters, and how often each was updated."""
    return copies * sum(trained) + (_COUNT_BYTES * len(trained) if copies > 1 else 0)


_COUNT_BYTES = 4


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes that tensors hold together, each storage once."""
    storages = {storage_key(one): one.untyped_storage().nbytes() for one in tensors}
    return sum(storages.values())
