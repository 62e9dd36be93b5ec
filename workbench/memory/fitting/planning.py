"""A step of training of a module: the bytes that it holds, and the plan of it within a budget."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from torch import Tensor, nn

from workbench.memory.dataflow import dataflow
from workbench.memory.executor import bases_of
from workbench.memory.fitting.flow import PassesFlow, passes_flow
from workbench.memory.fitting.loss import Loss, LossProfile, profile_loss
from workbench.memory.fitting.profile import Profile, digest_of, profiled
from workbench.memory.fitting.programme import Programme, compiled, fastest, is_met
from workbench.memory.lifetimes import lifetimes
from workbench.memory.process import OPTIMIZERS
from workbench.memory.recomputation import BudgetError, least_bytes, least_room
from workbench.memory.tracing.passes import Passes, Returned, Strides, trace_passes
from workbench.profiles.copies import held_tensors
from workbench.profiles.graph import View
from workbench.profiles.private import storage_key
from workbench.profiles.recorder import tensors_in
from workbench.profiles.recording import as_compiled
from workbench.utils.checks import UserError, choose
from workbench.utils.files import expanded, read_text, write_text
from workbench.utils.numbers import bytes_as_text, percent

MARGIN_BYTES = 1024
"""Bytes for single numbers, such as the loss."""
COUNT_BYTES = 4
"""Bytes of Adam's count of updates of a parameter."""
FORMAT = "workbench plan within a budget, 2"


@dataclass(frozen=True, eq=False)
class Step:
    """A step of training of a module on inputs of one form, whatever the plan."""

    name: str
    passes: Passes
    flow: PassesFlow
    bases: Mapping[int, View]
    held: tuple[tuple[int, str], ...]  # values that are tensors of the module, by its names
    beside: Mapping[str, int]  # bytes of the module, its inputs and the optimiser's state
    profile: Profile
    loss: LossProfile
    optimizer: str

    @cached_property
    def held_bytes(self) -> int:
        """Bytes that are held whatever the plan."""
        return sum(self.beside.values()) + MARGIN_BYTES

    @cached_property
    def plain_bytes(self) -> int:
        """Peak of a step in the module's own order in which nothing is computed again."""
        flow = self.flow.flow
        return lifetimes(flow, range(len(flow.steps))).bound_bytes + self.held_bytes

    @cached_property
    def least_bytes(self) -> int:
        """The smallest budget found that is met, to 2 %."""
        most = self.plain_bytes - self.held_bytes
        return least_room(self.flow.flow, most, partial(is_met, self.flow)) + self.held_bytes

    def is_within(self, budget_bytes: int) -> bool:
        """Whether there is a plan within a budget."""
        return is_met(self.flow, budget_bytes - self.held_bytes)

    def plan(self, budget_bytes: int, taken_bytes: int = 0) -> Fit:
        """The fastest plan found within a budget, of which some bytes are taken."""
        beside = self.held_bytes + taken_bytes
        try:
            found = fastest(self.flow, budget_bytes - beside)
        except BudgetError:
            least = self.least_bytes + taken_bytes
            taken = f" beside {bytes_as_text(taken_bytes)} of earlier gradients and passes"
            raise BudgetError(
                f"{self.name} does not train within {bytes_as_text(budget_bytes)}"
                f"{taken if taken_bytes else ''}: with recomputation, at least "
                f"{bytes_as_text(least, up=True)} (to within 2 %): {self._parts()}",
                least,
            ) from None
        return Fit(self, budget_bytes, compiled(self.passes, found, self.bases), beside)

    def _parts(self) -> str:
        """Parts of the least bytes, in words."""
        flow = self.flow.flow
        sizes = [int(flow.sizes[[*{*step.reads, *step.makes}]].sum()) for step in flow.steps]
        largest = max(range(len(sizes)), key=sizes.__getitem__)
        gradients = self.passes.graph.outputs[len(self.passes.outputs) :]
        parts = dict(self.beside) | {"gradients": sum(view.size_bytes for view in gradients)}
        named = [f"{name} {bytes_as_text(size)}" for name, size in parts.items() if size]
        return (
            f"{', '.join(named)}, and {bytes_as_text(sizes[largest])} that "
            f"{flow.steps[largest].name} alone reads, makes and allocates. "
            "A smaller batch needs less of the last: memory.largest_batch finds one"
        )


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
        """Seconds of both passes: the sum over operators, which were measured one by one."""
        return self.programme.seconds

    @property
    def again_s(self) -> float:
        """Seconds of `step_s` that recomputation takes."""
        return self.programme.seconds_again

    @property
    def once_s(self) -> float:
        """Seconds of `step_s` without recomputation."""
        return self.step_s - self.again_s

    def __repr__(self) -> str:
        used, budget, plain = map(
            bytes_as_text, (self.peak_bytes, self.budget_bytes, self.step.plain_bytes)
        )
        return (
            f"Fit({self.step.name}: {used} used of a {budget} budget (plain: {plain}), "
            f"{self._price()})"
        )

    def _price(self) -> str:
        """Seconds of recomputation: in the steps so far, or before them by operators run alone."""
        if not self.again_s:
            return "nothing recomputed"
        spent = self.programme.spent
        if not spent.steps:
            return (
                f"recomputing about {self.again_s:.2g} s a step, "
                f"{percent(self.again_s / self.once_s)} more, by operators timed "
                "alone (after a step: as timed in it)"
            )
        again_s, step_s = spent.again_s / spent.steps, spent.step_s / spent.steps
        return (
            f"recomputing took {again_s:.2g} s of {step_s:.2g} s a step, "
            f"{percent(again_s / (step_s - again_s))} more"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the budget and all that was measured to a small file of JSON, for `load_fit`."""
        saved = {
            "format": FORMAT,
            "budget_bytes": self.budget_bytes,
            "optimizer": self.step.optimizer,
            "layouts": {str(at): layout for at, layout in self.step.loss.layouts.items()},
            "loss_ratio": self.step.loss.bytes_ratio,
            "graph": self.step.profile.digest,
            "seconds": self.step.profile.seconds,
            "workspace_bytes": self.step.profile.workspace_bytes,
        }
        write_text(expanded(path), json.dumps(saved))


def read_fit(path: str | os.PathLike[str]) -> tuple[int, str, LossProfile, Profile]:
    """Budget in bytes, optimizer, and profiles of the loss and the operators, of a saved plan."""
    text = read_text(path)
    try:
        saved = json.loads(text)
        if saved["format"] != FORMAT:
            raise ValueError
        layouts = {int(at): layout for at, layout in saved["layouts"].items()}
        profile = Profile(tuple(saved["seconds"]), tuple(saved["workspace_bytes"]), saved["graph"])
        loss = LossProfile(layouts, saved["loss_ratio"])
        return saved["budget_bytes"], saved["optimizer"], loss, profile
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(
            f"{path} is damaged, or is no plan that fit.save(…) wrote: save it again, as in "
            "memory.fit(…).fit.save('plan.json')"
        ) from None


def step_of(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    loss: LossProfile | Loss,
    optimizer: str,
    *,
    timed: bool = True,
    profile: Profile | None = None,
    most_bytes: float = float("inf"),
) -> Step:
    """Trace a step of training, measure its operators, and count the bytes that it holds.

    With a `profile` from before, nothing is run. Raises `UserError` where it is of another graph;
    `BudgetError` before any operator runs, where what one reads and makes is above `most_bytes`.
    """
    name = type(module).__name__
    losses = [loss] if isinstance(loss, LossProfile) else []

    def gradients(returned: Returned, outputs: Sequence[Tensor]) -> Mapping[int, Strides]:
        if not isinstance(loss, LossProfile):
            losses.append(profile_loss(loss, returned, outputs))
        learnt = set(returned.differentiable)  # fewer, once parameters are frozen
        return {at: form for at, form in losses[-1].strides(outputs).items() if at in learnt}

    passes = as_compiled(partial(trace_passes, name, module, args, kwargs, gradients))
    graph = passes.graph
    named = dict(module.named_parameters()) | held_tensors(module)
    held = tuple(
        (at, value.name)
        for at, value in enumerate(graph.values)
        if value.name and value.origin != "input"
    )
    sources = {at: named[key] for at, key in held} | dict(graph.literals)
    bases = bases_of(graph, sources)

    chosen = choose("optimizer", optimizer, OPTIMIZERS)
    trained = [named[key].nbytes for key in passes.parameters]
    counts_bytes = COUNT_BYTES * len(trained) if chosen.state > 1 else 0
    own_bytes = storage_bytes(named.values())
    beside = {
        "parameters and buffers": own_bytes,
        "inputs": storage_bytes([*named.values(), *tensors_in((args, kwargs))]) - own_bytes,
        f"optimizer state ({optimizer})": chosen.state * sum(trained) + counts_bytes,
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
    output_bytes = sum(view.size_bytes for view in passes.outputs)
    loss_bytes = round(losses[-1].bytes_ratio * output_bytes)
    flow = passes_flow(passes, profile, loss_bytes, chosen.workspace_bytes(trained))
    return Step(name, passes, flow, bases, held, beside, profile, losses[-1], optimizer)


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes that tensors hold together, each storage once."""
    storages = {storage_key(tensor): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())
