"""The learning behind the programs: true gradients, the same step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import torch

from workbench.datasets import NamedArrays
from workbench.olpb.algorithms.jacobians import group_passes
from workbench.olpb.algorithms.levels import Group
from workbench.olpb.algorithms.tape import Tape, record
from workbench.olpb.programs.scan import Forward, Learner, Part
from workbench.training import (
    CLASSES,
    Epochs,
    FlatModel,
    Objective,
    Pieces,
    Sgd,
    flat_model,
    get_buffers,
    gradient_step,
    seeded,
    set_buffers,
)
from workbench.training.evaluation import applied
from workbench.training.passes import (
    Batches,
    Features,
    Gradient,
    Pass,
    backward,
    check_finite,
    forward,
    loss_gradient,
)
from workbench.training.repeatable import STEP
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workbench.datasets import Dataset


class Evaluations(Epochs):
    """Evaluates after some iterations; the parts of modules come one after the other.

    `epoch_ends` are the iterations that end an epoch. A model is whole when `parts` of them have
    come.
    """

    def __init__(
        self,
        flat: FlatModel,
        dataset: Dataset,
        *,
        epoch_ends: Sequence[int],
        parts: int = 1,
        objective: Objective = CLASSES,
    ) -> None:
        super().__init__(flat, dataset, objective)
        self._epoch_ends, self._parts = frozenset(epoch_ends), parts
        self._iterations: list[int] = []
        self._waiting: dict[int, list[Part]] = {}

    def take(self, part: Part, at_s: float) -> None:
        """Take a part of the model; with the last of an iteration, evaluate."""
        waiting = self._waiting.setdefault(part.iteration, [])
        waiting.append(part)
        if len(waiting) < self._parts:
            return
        del self._waiting[part.iteration]
        merged = get_buffers(self.flat.module)  # those that no part uses stay as they are
        for each in waiting:
            self.flat.parameters[each.where].copy_(each.weights)
            merged |= each.buffers
        self.evaluate(merged, at_s)
        self._iterations.append(part.iteration)

    @property
    def table(self) -> pl.DataFrame:
        """A row per evaluation: ``iteration``, and the columns of epochs but for their number."""
        iterations = pl.Series("iteration", self._iterations, pl.Int64)
        return super().frame.drop("epoch").insert_column(0, iterations)

    @property
    def frame(self) -> pl.DataFrame:
        """A row per epoch."""
        ends = self.table.filter(pl.col("iteration").is_in(sorted(self._epoch_ends)))
        return ends.drop("iteration").with_row_index("epoch", 1).cast({"epoch": pl.Int64})

    def __len__(self) -> int:
        """Epochs that had ended at the last evaluation; an epoch may have several or none."""
        return sum(end <= max(self._iterations, default=0) for end in self._epoch_ends)

    @property
    def last_loss(self) -> float | None:
        """Over all samples, where the last evaluation was at the end of an epoch."""
        ended = self._iterations and self._iterations[-1] in self._epoch_ends
        return super().last_loss if ended else None


@dataclass(eq=False)
class ServerModel(Learner):
    """The server's model: nodes take their time, and its gradients come from autograd."""

    flat: FlatModel
    sgd: Sgd
    seed: int
    batches: Batches
    evaluated: Sequence[int]  # iterations, from 1, after which the model is evaluated
    objective: Objective = CLASSES

    def __post_init__(self) -> None:
        self.velocity = self.sgd.start(self.flat.parameters)

    def begin(self, iteration: int) -> Forward:
        """Find the gradients of a batch at once; they are used when the scan is over."""
        tensors, labels = self.batches(iteration)
        x = self.batches.as_given(tensors)
        with seeded(self.seed, STEP, 0, iteration):
            loss = gradient_step(self.flat, x, labels, objective=self.objective)
        return Forward(check_finite(loss, f"in iteration {iteration + 1}"))

    def end(self, iteration: int, gradients: Mapping[str, Tensor]) -> Part | None:
        """Step by the flat vector's gradients."""
        self.sgd.step(self.flat.parameters, self.flat.gradients, self.velocity)
        if iteration + 1 not in self.evaluated:
            return None
        everything, weights = slice(None), self.flat.parameters.clone()
        return Part(iteration + 1, everything, weights, get_buffers(self.flat.module))


@dataclass(eq=False, kw_only=True)
class ScannedModel(ServerModel):
    """The server's model, whose gradients nodes find by products of Jacobians.

    Nodes compute in double precision, on a trace of each batch; the loss, and what the model's
    buffers become, are of the server's own forward pass.
    """

    tape: Tape  # of some batch
    groups: Sequence[Group]  # of its flow

    def begin(self, iteration: int) -> Forward:
        """Pass a batch forward, and trace it for the nodes."""
        before = flat_model.copied(self.flat.module)  # buffers change
        tensors, labels = self.batches(iteration)
        x, seed = self.batches.as_given(tensors), (self.seed, STEP, 0, iteration)
        with seeded(*seed), torch.no_grad():
            value = self.objective.value(applied(self.flat.module, x, self.flat.device), labels)
        loss = check_finite(value.item(), f"in iteration {iteration + 1}")
        with seeded(*seed):
            tape = traced_batch(before, self.batches, iteration, self.objective, like=self.tape)
        if tape.flow != self.tape.flow:
            raise UserError(
                f"the model has other operators in iteration {iteration + 1} than those that nodes "
                "were given; leave out jacobians=True"
            )
        return Forward(loss, group_passes(tape, self.groups))

    def end(self, iteration: int, gradients: Mapping[str, Tensor]) -> Part | None:
        """Step by the gradients that nodes found, in the precision of the weights."""
        self.flat.check_attached()
        self.flat.gradients.zero_()
        for name, gradient in gradients.items():
            self.flat.gradients[self.flat.layout.tensor_slices[name]] = gradient.reshape(-1).to(
                self.flat.gradients
            )
        return super().end(iteration, gradients)


def traced_batch(
    module: nn.Module,
    batches: Batches,
    iteration: int,
    objective: Objective,
    *,
    like: Tape | None = None,
) -> Tape:
    """Trace a module at a batch, in the generator's state; see `record`."""
    tensors, labels = batches(iteration)
    x: Any = batches.as_given(tensors)
    samples = x.arrays if isinstance(x, NamedArrays) else x
    return record(module, samples, labels, objective.loss, like=like)


class Kept(NamedTuple):
    """A batch that waits in a module for its gradient."""

    passed: Pass
    copy: FlatModel  # with the weights of the pass


@dataclass(eq=False)
class ModuleModel:
    """A module of decoupled back-propagation: a span of layers, from 1, as `Pieces` count them.

    A pass runs on a copy of the model that keeps its weights until the gradient is there; there are
    as many copies as passes are kept, used in turn.
    """

    place: int
    pieces: Pieces
    span: tuple[int, int]
    flat: FlatModel
    copies: Sequence[FlatModel]
    sgd: Sgd
    seed: int
    batches: Batches
    evaluated: Sequence[int]  # iterations, from 1, after which the model is evaluated
    objective: Objective = CLASSES

    def __post_init__(self) -> None:
        self.velocity = self.sgd.start(self.flat.parameters)
        self.where = self.flat.layout.layers_slice(*self.span)
        names = self.pieces.buffers[self.span[0] - 1 : self.span[1]]
        self._buffers = frozenset[str]().union(*names)

    def samples(self, batch: int) -> Features:
        """Features before the first layer."""
        return self.batches(batch)

    def forward(self, batch: int, features: Features) -> Kept:
        """Pass features forward with a copy of the weights; autograd keeps the graph."""
        copy = self.copies[batch % len(self.copies)]
        copy.parameters[self.where] = self.flat.parameters[self.where]
        set_buffers(copy.module, get_buffers(self.flat.module))
        with seeded(self.seed, STEP, self.place, batch):
            passed = forward(
                partial(self.pieces.on(copy.module).run, *self.span),
                features,
                trains_below=self.where.start > 0,
            )
        set_buffers(self.flat.module, get_buffers(copy.module))
        return Kept(passed, copy)

    def features(self, kept: Kept) -> Features:
        """Features for the next module."""
        return kept.passed.features

    def loss(self, batch: int, kept: Kept) -> tuple[float, Gradient]:
        """The mean loss, and its gradient by the scores."""
        where = f"in iteration {batch + 1}"
        return loss_gradient(kept.passed.features, where, self.objective)

    def backward(self, gradient: Gradient, kept: Kept) -> Gradient:
        """Go backward through the copy, and step on the weights."""
        copy = kept.copy
        copy.check_attached()
        copy.gradients.zero_()
        passed_back = backward(kept.passed, gradient)
        weights = self.flat.parameters[self.where]
        self.sgd.step(weights, copy.gradients[self.where], self.velocity[self.where])
        return passed_back

    def end(self, iteration: int) -> Part | None:
        """Return the weights after an iteration, if they are to be evaluated."""
        if iteration + 1 not in self.evaluated:
            return None
        buffers = get_buffers(self.flat.module)
        own = {name: held for name, held in buffers.items() if name in self._buffers}
        return Part(iteration + 1, self.where, self.flat.parameters[self.where].clone(), own)
