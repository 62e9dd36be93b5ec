"""Learning in a pipeline: true activations, true gradients, the step of one machine.

The gradient of the mean loss over a batch is the sum over its micro-batches, each weighted by its
labels: what one machine accumulates over the same micro-batches. Sums of several replicas round
otherwise. Batch normalisation sees the samples of a micro-batch that are on one node. What layers
draw (dropout) depends on step, micro-batch, layer and first row alone: plans with one replica a
stage draw the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.pipelines.schedules import Pass, Plan, Stage
from workbench.training import (
    CLASSES,
    Epochs,
    FlatModel,
    Objective,
    Pieces,
    Sgd,
    get_buffers,
    set_buffers,
)
from workbench.training.evaluation import counted_labels
from workbench.training.layerwise import LayerwiseModel
from workbench.training.passes import Batches, Features, Gradient
from workbench.training.repeatable import STEP
from workbench.training.trained import schema

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.datasets import Dataset


class Learner:
    """Learning of a node; this base learns nothing, so that only bytes move."""

    def begin(self, iteration: int) -> None:
        """Begin a step with gradients of 0."""

    def forward(self, pass_: Pass, features: Any) -> Any:
        """Features behind the stage; None stands for the samples before the first stage."""

    def backward(self, pass_: Pass, gradient: Any) -> Any:
        """Gradient before the stage; None stands for that of the loss, behind the last stage."""

    def rows(self, tensors: Any, rows: slice) -> Any:
        """Part of features or of a gradient."""

    def join(self, parts: Sequence[Any]) -> Any:
        """All parts in their order."""

    def gradients(self, number: int) -> Any:
        """Vector of the gradients in an all-reduce."""

    def set_gradients(self, number: int, value: Any) -> None:
        """Replace them with their sum."""

    def step(self) -> Sequence[Any]:
        """Update the weights of the node's stages; return what is to be recorded."""
        return ()

    def warm_up(self) -> None:
        """Compute a first gradient, and forget it."""


class StepLoss(NamedTuple):
    """Part of a step's mean loss that a node of the last stage has computed."""

    iteration: int
    loss: float


class StageModel(NamedTuple):
    """A node's model at the end of an epoch, from 0: its vector and buffers."""

    epoch: int
    parameters: Tensor
    buffers: dict[str, Tensor]


@dataclass(eq=False, kw_only=True)
class StageLearner(Learner):
    """A node's copy of the model, of which it computes some stages.

    Attributes
    ----------
    node, name
        Its number and its name, for errors.
    pieces, flat
        The model in layers, and as one vector.
    own
        Parts of the vector that the node updates.
    summed
        Parts of the vector that are summed in each reduction.
    flushes
        Whether all micro-batches of a step have the same weights. Without, each micro-batch in
        flight keeps the weights of its forward pass for its backward pass (weight stashing).
    """

    node: int
    name: str
    plan: Plan
    first_trained: int
    pieces: Pieces
    flat: FlatModel
    batches: Batches
    own: Sequence[slice]
    summed: Mapping[int, Sequence[slice]]
    sgd: Sgd
    seed: int
    epoch_ends: Sequence[int]
    objective: Objective = CLASSES
    flushes: bool = True
    iteration: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.velocity = self.sgd.start(self.flat.parameters)
        self._in_flight: dict[Pass, LayerwiseModel] = {}  # by the backward pass
        self._features: dict[Pass, list[Features]] = {}  # inputs, or outputs of the last stage
        self._stashed: list[FlatModel] = []  # copies that no micro-batch uses
        self._loss, self._done = 0.0, 0
        self._rows = {
            number: (start, stop)
            for number, stage in enumerate(self.plan.stages)
            for node, start, stop in stage.rows()
            if node == self.node
        }

    def begin(self, iteration: int) -> None:
        """Begin a step with gradients of 0."""
        self.iteration = iteration
        self.flat.check_attached()
        self.flat.gradients.zero_()

    def forward(self, pass_: Pass, features: Features | None) -> Features:
        """Features behind the stage; autograd keeps the graph, unless it is to be recomputed."""
        if features is None:
            features = self._samples(pass_)
        stage, flat = self.plan.stages[pass_.stage], self.flat
        if not self.flushes:
            flat = self._stash()
        model = LayerwiseModel(flat, self.pieces.on(flat.module), self.objective)
        backward, recomputes = pass_._replace(backward=True), self.plan.recompute[pass_.stage]
        inputs, outputs = [features], features
        for layer in range(stage.first, stage.last + 1):
            outputs = self._layer(model, pass_, layer, outputs)
            if recomputes == "layers" and layer < stage.last:
                inputs.append(outputs)
                model = LayerwiseModel(flat, model.pieces, self.objective)
        if not self.flushes:
            set_buffers(self.flat.module, get_buffers(flat.module))
        if stage.last < self.first_trained:
            return outputs
        if recomputes:
            model = LayerwiseModel(flat, model.pieces, self.objective)
            self._features[backward] = inputs
        elif pass_.stage == len(self.plan.stages) - 1:
            self._features[backward] = [outputs]
        self._in_flight[backward] = model
        return outputs

    def backward(self, pass_: Pass, gradient: Gradient | None) -> Gradient:
        """Gradient before the stage; those of parameters add up in the flat vector."""
        model, features = self._in_flight.pop(pass_), self._features.pop(pass_, [])
        stage, recomputes = self.plan.stages[pass_.stage], self.plan.recompute[pass_.stage]
        buffers: dict[str, Tensor] = {}
        if recomputes:
            # Buffers of the node's other stages may be part of a graph: nothing may write them.
            all_buffers = get_buffers(model.flat.module)
            names = names_of(self.pieces.buffers, stage)
            buffers = {name: all_buffers[name] for name in names}
        if recomputes is True:
            for layer in range(stage.first, stage.last + 1):
                features = [self._layer(model, pass_, layer, features[-1])]
        for layer in range(stage.last, stage.first - 1, -1):
            if recomputes == "layers":
                features.append(self._layer(model, pass_, layer, features.pop()))
            if gradient is None:
                gradient = self._of_loss(model, pass_, features[-1])
            if recomputes == "layers":
                del features[-1]
            gradient = model.backward(layer, layer, gradient)
        for name, values in buffers.items():  # only the first forward pass changes them
            model.flat.module.get_buffer(name).copy_(values)
        if not self.flushes:
            self.flat.gradients.copy_(model.flat.gradients)
            self._stashed.append(model.flat)
        assert gradient is not None
        return gradient

    def _samples(self, pass_: Pass) -> Features:
        """Rows of a micro-batch on the node, before layer 1."""
        iteration, microbatch = self._place(pass_)
        start, stop = self._rows[pass_.stage]
        first = microbatch * self.plan.samples
        return self.batches(iteration, slice(first + start, first + stop))

    def _stash(self) -> FlatModel:
        """Copy the model as it is now."""
        copy = self._stashed.pop() if self._stashed else self.flat.replica()
        copy.parameters.copy_(self.flat.parameters)
        copy.gradients.zero_()
        set_buffers(copy.module, get_buffers(self.flat.module))
        return copy

    def _layer(
        self, model: LayerwiseModel, pass_: Pass, layer: int, features: Features
    ) -> Features:
        """Features behind a layer; autograd keeps its graph."""
        iteration, microbatch = self._place(pass_)
        start, _ = self._rows[pass_.stage]
        seed = self.seed, STEP, iteration, microbatch, layer, start
        return model.forward(layer, layer, features, seed)

    def _of_loss(self, model: LayerwiseModel, pass_: Pass, outputs: Features) -> Gradient:
        iteration, microbatch = self._place(pass_)
        indices, size = self.batches.indices[iteration], self.plan.samples
        if not self.flushes:
            indices = indices[microbatch * size : (microbatch + 1) * size]
        all_labels = counted_labels(self.batches.dataset.y_train[indices])
        weight = counted_labels(outputs.labels) / max(all_labels, 1)
        where = f"on {self.name} in iteration {iteration + 1}"
        loss, gradient = model.loss(outputs, where, weight)
        self._loss += loss if self.flushes else loss / self.plan.microbatches
        return gradient

    def _place(self, pass_: Pass) -> tuple[int, int]:
        """Iteration and micro-batch of a pass; without a flush its micro-batches count on."""
        if self.flushes:
            return self.iteration, pass_.microbatch
        return divmod(pass_.microbatch, self.plan.microbatches)

    def rows(self, tensors: Features | Gradient, rows: slice) -> Features | Gradient:
        """Rows of features or of a gradient."""
        if isinstance(tensors, Features):
            return Features(tuple(part[rows] for part in tensors.tensors), tensors.labels[rows])
        return tuple(None if part is None else part[rows] for part in tensors)

    def join(self, parts: Sequence[Any]) -> Features | Gradient:
        """Rows of all parts, in their order."""
        import torch

        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        if isinstance(parts[0], Features):
            crossing = zip(*(part.tensors for part in parts), strict=True)
            labels = torch.cat([part.labels for part in parts])
            return Features(tuple(map(torch.cat, crossing)), labels)
        return tuple(
            None if same[0] is None else torch.cat(same) for same in zip(*parts, strict=True)
        )

    def gradients(self, number: int) -> Tensor:
        """Vector of the gradients in an all-reduce."""
        import torch

        return torch.cat([self.flat.gradients[part] for part in self.summed[number]])

    def set_gradients(self, number: int, value: Tensor) -> None:
        """Replace them with their sum."""
        start = 0
        for part in self.summed[number]:
            stop = start + part.stop - part.start
            self.flat.gradients[part] = value[start:stop]
            start = stop

    def step(self) -> list[StepLoss | StageModel]:
        """Update the own parts; return the loss of a step, and at the end of an epoch the model."""
        weights, gradients = self.flat.parameters, self.flat.gradients
        for part in self.own:
            self.sgd.step(weights[part], gradients[part], self.velocity[part])
        self._done += 1
        steps, left = divmod(self._done, 1 if self.flushes else self.plan.microbatches)
        if left:
            return []
        records: list[StepLoss | StageModel] = []
        if len(self.plan.stages) - 1 in self._rows:
            records.append(StepLoss(steps - 1, self._loss))
            self._loss = 0.0
        if steps in self.epoch_ends:
            epoch = self.epoch_ends.index(steps)
            buffers = get_buffers(self.flat.module)
            records.append(StageModel(epoch, self.flat.parameters.clone(), buffers))
        return records

    def warm_up(self) -> None:
        """Pass samples through the layers of each stage and back, and forget that."""
        import torch

        buffers = get_buffers(self.flat.module)
        for number, (start, stop) in self._rows.items():
            stage = self.plan.stages[number]
            features = self.batches(0, slice(start, stop))
            model = LayerwiseModel(self.flat, self.pieces, self.objective)
            with torch.no_grad():
                for layer in range(1, stage.first):
                    tensors = self.pieces.run(layer, layer, features.tensors)
                    features = Features(tensors, features.labels)
            for layer in range(stage.first, stage.last + 1):
                features = self._layer(model, Pass(number, 0, False), layer, features)
            if stage.last < self.first_trained:
                continue
            gradient: Gradient = tuple(map(torch.ones_like, features.tensors))
            for layer in range(stage.last, stage.first - 1, -1):
                gradient = model.backward(layer, layer, gradient)
        self.flat.gradients.zero_()
        set_buffers(self.flat.module, buffers)


class StageEpochs(Epochs):
    """Losses and epochs, from the records of the nodes.

    `parts` has the parts of the vector in each stage. The vector of a stage is its first replica's;
    buffers are the replicas' mean, weighted by their samples.
    """

    def __init__(
        self,
        flat: FlatModel,
        pieces: Pieces,
        plan: Plan,
        parts: Sequence[Sequence[slice]],
        *,
        dataset: Dataset,
        objective: Objective = CLASSES,
    ) -> None:
        super().__init__(flat, dataset, objective)
        self.losses: list[float] = []
        self._pieces, self._plan, self._parts = pieces, plan, parts
        self._models: dict[int, dict[int, StageModel]] = {}
        self._losses: dict[int, dict[int, float]] = {}

    @property
    def _schema(self) -> dict[str, Any]:
        """Columns of `frame`, with the loss on the test samples for any kind of labels."""
        metrics = tuple(self.objective.metrics)
        return schema(["test_loss", *(f"train_{name}" for name in metrics)], metrics)

    def observe(self, at_s: float, node: int, value: StepLoss | StageModel) -> None:
        """Take a node's part of a loss, or its model at the end of an epoch."""
        if isinstance(value, StepLoss):
            parts = self._losses.setdefault(value.iteration, {})
            parts[node] = value.loss
            last = self._plan.stages[-1].nodes
            if len(parts) == len(last):
                self.losses.append(sum(parts[each] for each in last))
                del self._losses[value.iteration]
            return
        models = self._models.setdefault(value.epoch, {})
        models[node] = value
        if len(models) < len(self._plan.nodes):
            return
        for stage, parts_of_stage in zip(self._plan.stages, self._parts, strict=True):
            for where in parts_of_stage:
                self.flat.parameters[where].copy_(models[stage.nodes[0]].parameters[where])
        self.evaluate(self._buffers(models), at_s)
        del self._models[value.epoch]

    def _buffers(self, models: Mapping[int, StageModel]) -> dict[str, Tensor]:
        merged = dict(models[self._plan.nodes[0]].buffers)
        for stage in self._plan.stages:
            for name in names_of(self._pieces.buffers, stage):
                merged[name] = weighted(
                    [models[node].buffers[name] for node in stage.nodes],
                    [samples for _, samples in stage.samples],
                )
        return merged


def names_of(by_layer: Sequence[frozenset[str]], stage: Stage) -> frozenset[str]:
    """Names of the tensors that the layers of a stage use."""
    return frozenset().union(*by_layer[stage.first - 1 : stage.last])


def weighted(tensors: Sequence[Tensor], samples: Sequence[int]) -> Tensor:
    """Mean of the tensors by their samples; of whole numbers, the largest."""
    import torch

    if len(tensors) == 1:
        return tensors[0]
    stacked = torch.stack(list(tensors))
    if not stacked.is_floating_point():
        return stacked.amax(0)
    shares = torch.tensor(samples, dtype=stacked.dtype)
    mean: Tensor = torch.tensordot(shares / shares.sum(), stacked, 1)
    return mean


def slices_of(names: Collection[str], flat: FlatModel) -> list[slice]:
    """Parts of the vector with these tensors; adjacent parts are merged."""
    merged: list[slice] = []
    for name, part in flat.layout.tensor_slices.items():
        if name not in names:
            continue
        if merged and merged[-1].stop == part.start:
            merged[-1] = slice(merged[-1].start, part.stop)
        else:
            merged.append(part)
    return merged
