"""The servers' side of the learning: averages of the workers' gradients, and steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from workbench.training import Sgd
from workbench.training.data_parallel import ModelParts, Parts

if TYPE_CHECKING:
    from torch import Tensor


class ServerStore:
    """A server's parts of the model and of the optimiser's state, one behind the other.

    `own` are the parts, as slices of the model's vector, `labels` how many labels count of each
    iteration's batches, by worker.
    """

    def __init__(
        self,
        parameters: Tensor,
        own: Sequence[slice],
        sgd: Sgd,
        epoch_ends: Sequence[int],
        labels: Sequence[Sequence[int]],
    ) -> None:
        import torch

        self.own, self.sgd, self.epoch_ends, self.labels = own, sgd, epoch_ends, labels
        self.vector = torch.cat([parameters[part] for part in own])
        self.velocity, self.total = sgd.start(self.vector), torch.zeros_like(self.vector)
        self.steps = 0
        self._starts = [part.start for part in own]
        lengths = [part.stop - part.start for part in own]
        self._offsets = list(accumulate(lengths, initial=0))

    def _local(self, part: slice) -> slice:
        """Convert a slice of the model's vector, all of it stored here, to one of this store's."""
        at = bisect_right(self._starts, part.start) - 1
        shift = self._offsets[at] - self._starts[at]
        return slice(part.start + shift, part.stop + shift)

    def parameters(self, where: Sequence[slice]) -> Parts:
        """Parts of the model, as views.

        Unchanged until the next `step`: that needs the gradients of all workers, and a worker has
        none before it has copied all that it pulled.
        """
        return [(part, self.vector[self._local(part)]) for part in where]

    def step(self, gradients: Sequence[Parts]) -> ModelParts | None:
        """Average the gradients over labels, in the order of the workers, and step.

        At the end of an epoch, return the part of the model.
        """
        labels = self.labels[self.steps]
        largest = max(*labels, 1)  # so that equal batches are weighted by 1, which rounds nothing
        self.total.zero_()
        for parts, count in zip(gradients, labels, strict=True):
            for where, values in parts:
                self.total[self._local(where)].add_(values, alpha=count / largest)
        self.sgd.step(self.vector, self.total.div_(max(sum(labels), 1) / largest), self.velocity)
        self.steps += 1
        return ModelParts(self.parameters(self.own)) if self.steps in self.epoch_ends else None
