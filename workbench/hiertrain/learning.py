"""The learning behind device, edge and cloud: true features, true gradients, the same step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.hiertrain.costs import TIERS, Policy, Row
from workbench.training import (
    CLASSES,
    Epochs,
    FlatModel,
    Objective,
    Pieces,
    Sgd,
    get_buffers,
    quantise,
    set_buffers,
)
from workbench.training.layerwise import LayerwiseModel
from workbench.training.passes import Features, Gradient, forward
from workbench.training.repeatable import STEP

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.datasets import Dataset


class Learner:
    """A tier's side of the learning; here it learns nothing, where only bytes move."""

    def begin(self, iteration: int) -> None:
        """Begin an iteration with gradients of 0."""

    def forward(self, first: int, last: int, features: Any) -> Any:
        """Features behind layer `last`."""

    def backward(self, first: int, last: int, gradient: Any) -> Any:
        """Gradient before layer `first`."""

    def loss(self, features: Any) -> tuple[float | None, Any]:
        """The mean loss, and its gradient by the model's outputs."""
        return None, None

    def join(self, parts: Sequence[Any]) -> Any:
        """Features of all samples, in the order of the parts; None has no samples."""

    def split(self, gradient: Any, samples: int) -> tuple[Any, Any]:
        """Gradient of all but the last samples, and of these."""
        return None, None

    def quantise(self, tensors: Any, bits: int) -> Any:
        """Features or a gradient in `bits` a value, each tensor for itself."""

    def gradients(self, last: int) -> Any:
        """Gradient of the parameters of layers 1 to `last`."""

    def average(self, parts: Sequence[Any]) -> Any:
        """Gradient of the mean loss: the own part and those of others, in their order."""

    def part(self, mean: Any, last: int) -> Any:
        """The part of layers 1 to `last` of a mean gradient."""

    def step(self, mean: Any) -> Any:
        """Update the own layers; None takes the gradient that was computed here."""


class TierModel(NamedTuple):
    """A tier's model at the end of an epoch: its vector and buffers."""

    tier: str
    parameters: Tensor
    buffers: dict[str, Tensor]


@dataclass(eq=False)
class TierLearner(Learner):
    """One tier's copy of the model, of which it computes some layers.

    The gradient of the mean loss over a batch is the sum of its parts' gradients, each computed
    where its samples are: worker o's sum is what one machine would find, but for the order of
    summation, for batch normalisation, which sees only the samples that pass its tier together, and
    for dropout, whose masks are each tier's own.

    Attributes
    ----------
    pieces, flat
        The model in layers, and as one vector.
    own
        Parts of the vector that it updates.
    seed
        The run's and the tier's: of what the model draws.
    epoch_ends
        Iterations up to the end of each epoch.
    """

    tier: str
    pieces: Pieces
    flat: FlatModel
    own: Sequence[slice]
    sgd: Sgd
    seed: tuple[int, int]
    epoch_ends: Sequence[int]
    objective: Objective = CLASSES
    iteration: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.velocity = self.sgd.start(self.flat.parameters)
        self.model = LayerwiseModel(self.flat, self.pieces, self.objective)

    def begin(self, iteration: int) -> None:
        """Begin an iteration with gradients of 0."""
        self.iteration = iteration
        self.model.begin()

    def forward(self, first: int, last: int, features: Features) -> Features:
        """Features behind layer `last`; autograd keeps the graph."""
        seed, tier = self.seed
        return self.model.forward(first, last, features, (seed, STEP, tier, self.iteration, first))

    def backward(self, first: int, last: int, gradient: Gradient) -> Gradient:
        """Gradient before layer `first`; those of parameters add up in the flat vector."""
        return self.model.backward(first, last, gradient)

    def loss(self, features: Features) -> tuple[float, Gradient]:
        """The mean loss, and its gradient by the model's outputs."""
        where = f"on the {self.tier} in iteration {self.iteration + 1}"
        return self.model.loss(features, where)

    def warm_up(self, rows: Sequence[Row], samples: Callable[[slice], Features]) -> None:
        """Pass samples through the tier's layers and back, and forget that."""
        import torch

        buffers = get_buffers(self.flat.module)
        for _, first, last, count in rows:
            until = last or len(self.pieces)
            features = samples(slice(count))
            if first > 1:
                before = partial(self.pieces.run, 1, first - 1)
                features = forward(before, features, trains_below=False).features
            features = self.forward(first, until, features)
            if until == len(self.pieces):
                _, gradient = self.loss(features)
            else:
                gradient = tuple(map(torch.ones_like, features.tensors))
            self.backward(first, until, gradient)
        set_buffers(self.flat.module, buffers)

    def join(self, parts: Sequence[Features | None]) -> Features:
        """Features of all samples, in the order of the parts; None has no samples."""
        import torch

        full = [part for part in parts if part is not None]
        if len(full) == 1:
            return full[0]
        crossing = zip(*(part.tensors for part in full), strict=True)
        return Features(
            tuple(torch.cat(same) for same in crossing), torch.cat([part.labels for part in full])
        )

    def split(self, gradient: Gradient, samples: int) -> tuple[Gradient, Gradient]:
        """Gradient of all but the last samples, and of these."""
        first, last = (
            tuple(None if part is None else part[where] for part in gradient)
            for where in (slice(-samples), slice(-samples, None))
        )
        return first, last

    def quantise(self, tensors: Features | Gradient, bits: int) -> Features | Gradient:
        """Features or a gradient in `bits` a value, each tensor for itself."""
        if isinstance(tensors, Features):
            narrow = (
                quantise(tensor, bits).values if tensor.is_floating_point() else tensor
                for tensor in tensors.tensors
            )
            return Features(tuple(narrow), tensors.labels)
        return tuple(None if part is None else quantise(part, bits).values for part in tensors)

    def gradients(self, last: int) -> Tensor:
        """Gradient of the parameters of layers 1 to `last`, as a view."""
        return self.part(self.flat.gradients, last)

    def average(self, parts: Sequence[Tensor]) -> Tensor:
        """Gradient of the mean loss: the own part and those of others, in their order."""
        total = self.flat.gradients.clone()
        for part in parts:
            total[: len(part)] += part
        return total

    def part(self, mean: Tensor, last: int) -> Tensor:
        """The part of layers 1 to `last` of a mean gradient."""
        return mean[: self.flat.layout.starts[last]]

    def step(self, mean: Tensor | None) -> TierModel | None:
        """Update the own layers; at the end of an epoch, return the model.

        With None, the gradient is the one that was computed here.
        """
        gradients = self.flat.gradients if mean is None else mean
        for part in self.own:
            self.sgd.step(self.flat.parameters[part], gradients[part], self.velocity[part])
        if self.iteration + 1 not in self.epoch_ends:
            return None
        return TierModel(self.tier, self.flat.parameters.clone(), get_buffers(self.flat.module))


class TierEpochs(Epochs):
    """Assembles the tiers' layers when an epoch ends, and evaluates.

    Writes to `flat`, the model with its first weights; `policy` says who trains which layers.
    """

    def __init__(
        self,
        flat: FlatModel,
        pieces: Pieces,
        policy: Policy,
        dataset: Dataset,
        objective: Objective = CLASSES,
    ) -> None:
        super().__init__(flat, dataset, objective)
        layers = len(pieces)
        self._pieces = pieces
        self._spans = policy.rows(layers)
        self._holders = policy.holders(layers)
        self._tiers = sum(bool(policy.held(tier, layers)) for tier in TIERS)
        self._models: dict[str, TierModel] = {}

    def take(self, model: TierModel, at_s: float) -> None:
        """Take one tier's model at the end of an epoch; with the last, evaluate."""
        self._models[model.tier] = model
        if len(self._models) < self._tiers:
            return
        layout = self.flat.layout
        for layer, tier in enumerate(self._holders, start=1):
            where = layout.layers_slice(layer, layer)
            self.flat.parameters[where].copy_(self._models[tier].parameters[where])
        self.evaluate(self._buffers(), at_s)
        self._models = {}

    def _buffers(self) -> dict[str, Tensor]:
        """Buffers of each layer: mean of all tiers that compute it, by their samples."""
        merged = dict(self._models[self._holders[-1]].buffers)
        for layer, names in enumerate(self._pieces.buffers, start=1):
            samples = {
                tier: count
                for tier, first, last, count in self._spans
                if first <= layer <= (last or 0)
            }
            for name in sorted(names):
                values = [self._models[tier].buffers[name] for tier in samples]
                merged[name] = _weighted(values, list(samples.values()))
        return merged


def _weighted(tensors: Sequence[Tensor], samples: Sequence[int]) -> Tensor:
    """Mean of the tensors by their samples; of whole numbers, the largest."""
    import torch

    stacked = torch.stack(list(tensors))
    if not stacked.is_floating_point():
        return stacked.amax(0)
    shares = torch.tensor(samples, dtype=stacked.dtype)
    mean: Tensor = torch.tensordot(shares / shares.sum(), stacked, 1)
    return mean
