"""Memory of a stage: bytes that a node allocates to train consecutive layers of a model.

One pass of the whole model, forward and backward, is recorded on fake tensors, which have sizes and
no numbers: the storages that operators allocate, the layer that they do it for, and when each is
freed; convolutions run on zeros, since their kernels allocate operands in other layouts. A stage
allocates the storages of its layers. It also keeps what it received and what it sent until
the backward pass of the micro-batch is over, as `workbench.training.passes` does. Bytes are linear
in the samples of a micro-batch, so two recordings give them for any number.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.pipelines.recording import Recording, stored_recordings
from workbench.pipelines.schedules import Recompute
from workbench.profiles import ModelProfile, inputs_of
from workbench.profiles.inputs import InputShape
from workbench.utils.checks import UserError, check_whole

if TYPE_CHECKING:
    import torch

FEW, MANY = 4, 8
"""Samples with which a model is recorded."""


class Bytes(NamedTuple):
    """Bytes that grow linearly with the samples: a fixed part, and a part for each sample."""

    fixed: NDArray[np.float64]
    per_sample: NDArray[np.float64]

    def peak(self, samples: int) -> float:
        """Most bytes for this many samples."""
        return float((self.fixed + samples * self.per_sample).max(initial=0.0))


class LayersMemory(NamedTuple):
    """Memory of consecutive layers; arrays have a number an operator, or a single one.

    Attributes
    ----------
    weights
        Bytes of parameters, their gradients and buffers.
    received, kept
        Arrivals from the stage before, and all that a micro-batch keeps for its backward pass.
    gradient
        Arrivals from the stage behind; the last stage has none.
    forward, backward
        Bytes alive while each operator runs.
    """

    weights: float
    received: Bytes
    kept: Bytes
    gradient: Bytes
    forward: Bytes
    backward: Bytes


class StageMemory:
    """Bytes that a stage needs at its peak, as `pipelines.Problem.needed` gives them.

    Counted are parameters, trained ones with their gradient, and buffers; what each micro-batch in
    flight keeps; what the forward or the backward pass of one of them allocates beside that; and
    features and gradients received and sent. Not counted are messages that arrive before a stage is
    ready for them.
    """

    def __init__(self, few: Recording, many: Recording) -> None:
        """Take a model's recordings with `FEW` and with `MANY` samples."""
        per_sample = (many.sizes - few.sizes) / (MANY - FEW)
        self.recording, self._bytes = few, Bytes(few.sizes - FEW * per_sample, per_sample)
        self._spans: dict[tuple[int, int], LayersMemory] = {}
        self._inputs = dict[int, tuple[Bytes, Bytes]]()  # by first layer
        self._alone = dict[int, NDArray[np.float64]]()  # by samples

    def __len__(self) -> int:
        return len(self.recording.tensors)

    def __call__(
        self, first: int, last: int, samples: int, in_flight: int, recompute: Recompute
    ) -> float:
        """Bytes at the peak of a node with layers `first` to `last`, from 1.

        `samples` are those of a micro-batch on the node. With `recompute` a micro-batch in flight
        keeps what was received, and the backward pass repeats the forward pass; with ``"layers"``
        it keeps the inputs of all layers, and they are repeated one at a time. Layers below the
        first trained one keep nothing.
        """
        span = self.span(first, last)
        forward, backward = span.forward.peak(samples), span.backward.peak(samples)
        if not span.backward.fixed.size:  # nothing is trained up to the last layer
            return span.weights + forward
        kept = span.kept
        if recompute == "layers":
            return span.weights + self._by_layer(first, last, samples, in_flight)
        if recompute:
            forward += span.gradient.peak(samples)
            kept = span.received
        return span.weights + (in_flight - 1) * kept.peak(samples) + max(forward, backward)

    def _by_layer(self, first: int, last: int, samples: int, in_flight: int) -> float:
        """Bytes beside the weights where inputs of layers are kept, and layers are repeated."""
        if first not in self._inputs:
            self._inputs[first] = self._inputs_from(first)
        if samples not in self._alone:
            self._alone[samples] = self._peaks(samples)
        below, inputs = self._inputs[first]
        count = last - first + 1
        held = below.fixed[:count] + samples * below.per_sample[:count]
        alone = self._alone[samples][first - 1 : last]
        waiting = inputs.fixed[count - 1] + samples * inputs.per_sample[count - 1]
        return float((in_flight - 1) * waiting + (held + alone).max())

    def _peaks(self, samples: int) -> NDArray[np.float64]:
        """Bytes beside the weights of each layer alone, repeated and passed back."""
        spans = [self.span(layer, layer) for layer in range(1, len(self) + 1)]
        return np.array(
            [
                max(
                    each.forward.peak(samples) + each.gradient.peak(samples),
                    each.backward.peak(samples),
                )
                for each in spans
            ]
        )

    def _inputs_from(self, first: int) -> tuple[Bytes, Bytes]:
        """Inputs of layers `first` to l, for each l: without those of l itself, and with them."""
        crossing, seen = self.recording.crossing, set[int]()
        below, inputs = [], []
        for layer in range(first, len(self) + 1):
            own = {*crossing[layer - 1]}
            below.append(self._total(seen - own))
            seen |= own
            inputs.append(self._total(seen))
        return Bytes(*np.transpose(below)), Bytes(*np.transpose(inputs))

    def _total(self, storages: set[int]) -> tuple[float, float]:
        chosen = sorted(storages)
        fixed, per_sample = (float(each[chosen].sum()) for each in self._bytes)
        return fixed, per_sample

    def span(self, first: int, last: int) -> LayersMemory:
        """Memory of consecutive layers, computed once for each pair."""
        if (first, last) not in self._spans:
            first, last = check_whole("first layer", first, 1), check_whole("last layer", last, 1)
            if not first <= last <= len(self):
                raise UserError(f"layers {first} to {last} are not within 1 to {len(self)}")
            self._spans[first, last] = self._span(first, last)
        return self._spans[first, last]

    def _span(self, first: int, last: int) -> LayersMemory:
        record, is_last = self.recording, last == len(self)
        operators, storages = np.arange(len(record.operator_layers)), np.arange(len(record.layers))
        final = last + is_last  # the loss runs with the last layer
        inside = (record.operator_layers >= first) & (record.operator_layers <= final)
        is_backward = operators >= record.backward
        own = (record.layers >= first) & (record.layers <= final)
        received = np.isin(storages, record.crossing[first - 1])
        sent = np.isin(storages, record.crossing[last]) & own & ~received
        in_backward = own & (record.born >= record.backward)
        made = own & ~in_backward & ~received
        kept = received | sent | (made & (record.freed > record.backward))
        gradient = np.isin(storages, [] if is_last else record.gradients[last])
        freed = np.where(received | sent, len(operators), record.freed)
        # The gradient of a tied weight waits for that of its other layers, if the stage has them.
        end = operators[inside].max(initial=-1) + 1
        waits = in_backward & (self._bytes.per_sample == 0) & (record.freed > end)
        freed = np.where(waits, record.born + 1, freed)
        born = np.where(received, 0, record.born)
        alive = self._alive(received | made | in_backward, born, freed)
        received_gradient = self._sum(gradient)
        return LayersMemory(
            self._weights(first, last),
            self._sum(received),
            self._sum(kept),
            received_gradient,
            Bytes(*(each[inside & ~is_backward] for each in alive)),
            Bytes(
                *(
                    each[inside & is_backward] + more
                    for each, more in zip(alive, received_gradient, strict=True)
                )
            ),
        )

    def _sum(self, chosen: NDArray[np.bool_]) -> Bytes:
        fixed, per_sample = (each[chosen].sum(keepdims=True) for each in self._bytes)
        return Bytes(fixed, per_sample)

    def _alive(
        self, chosen: NDArray[np.bool_], born: NDArray[np.int64], freed: NDArray[np.int64]
    ) -> Bytes:
        """Bytes alive while each operator runs."""
        count = len(self.recording.operator_layers)

        def alive(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
            change = np.bincount(born[chosen], sizes[chosen], count + 1)
            change -= np.bincount(freed[chosen], sizes[chosen], count + 1)
            return change.cumsum()[:-1]

        return Bytes(alive(self._bytes.fixed), alive(self._bytes.per_sample))

    def _weights(self, first: int, last: int) -> float:
        trained, others = dict[str, int](), dict[str, int]()
        for learnt, rest in self.recording.tensors[first - 1 : last]:
            trained |= learnt
            others |= rest
        return float(2 * sum(trained.values()) + sum(others.values()))


def stage_memory(
    model: str | torch.nn.Module | ModelProfile,
    input_shape: InputShape | None = None,
    input_dtype: str | None = None,
) -> StageMemory | None:
    """Return the memory of a model's stages.

    Most models of the zoo have stored recordings at their own shape; any other is recorded. None
    for a profile, which has no operators, and for a module that cannot be cut into its layers.
    """
    if isinstance(model, ModelProfile):
        return None
    if isinstance(model, str) and input_shape is None and input_dtype is None:
        stored = stored_stage_memory(model)
        if stored is not None:
            return stored
    recordings = recorded(model, input_shape, input_dtype)
    return None if recordings is None else StageMemory(*recordings)


@cache
def stored_stage_memory(model: str) -> StageMemory | None:
    """Memory of stages of a model of the zoo; None where no recordings of it are stored."""
    recordings = stored_recordings(model)
    return None if recordings is None else StageMemory(*recordings)


def recorded(
    model: str | torch.nn.Module,
    input_shape: InputShape | None = None,
    input_dtype: str | None = None,
) -> tuple[Recording, Recording] | None:
    """Record a model with `FEW` and with `MANY` samples; None if it cannot be cut into its layers.

    It takes about five seconds for GPT-2.
    """
    from workbench.pipelines.recorder import record
    from workbench.training.pieces import cut
    from workbench.zoo import build

    inputs = inputs_of(model, input_shape, input_dtype)
    name = model if isinstance(model, str) else type(model).__name__
    module = build(model, "meta") if isinstance(model, str) else model
    try:
        pieces = cut(module, inputs)
        few, many = (record(name, pieces, inputs, samples) for samples in (FEW, MANY))
    except UserError:
        return None
    alike = few.sizes.shape == many.sizes.shape and (few.layers == many.layers).all()
    return (few, many) if alike else None
