"""A training in which all machines work on one batch at a time: what that adds to any setup."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING

from workbench.errors import UserError
from workbench.training.batches import batches
from workbench.training.flat_model import FlatModel, flatten
from workbench.training.passes import Batches
from workbench.training.pieces import Pieces, cut
from workbench.training.setup import Setup
from workbench.training.tensors import dtype_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class WholeBatches(Setup, ABC):
    """A setup with batches of one size; a system's says of which, by `samples_per_batch`.

    Attributes
    ----------
    epochs
        Passes over the samples; those that fill no batch are left out, others each time.
    iterations
        Stop after this many instead; what is begun of an epoch then counts as one.
    """

    iterations: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.iterations is not None:
            self._check_counts(iterations=1)
        samples = len(self.dataset.y_train)
        if samples < self.samples_per_batch:
            raise UserError(
                f"{self.dataset.name} has {samples} training samples, less than one batch of "
                f"{self.samples_per_batch}; use more samples or a smaller batch"
            )

    @property
    @abstractmethod
    def samples_per_batch(self) -> int:
        """Samples of an iteration, on all machines together."""

    @property
    def epoch_ends(self) -> tuple[int, ...]:
        """Iterations up to the end of each epoch."""
        ends = accumulate([self._per_epoch] * self._epochs)
        return tuple(min(end, self.iterations or end) for end in ends)

    @property
    def batches(self) -> list[NDArray[np.int64]]:
        """Indices of each iteration's samples."""
        size = self.samples_per_batch
        drawn = (batches(self.dataset, size, self.seed, epoch) for epoch in range(self._epochs))
        whole = (one for one in chain.from_iterable(drawn) if len(one) == size)
        return list(islice(whole, self.epoch_ends[-1]))

    def begin(self) -> tuple[FlatModel, Batches]:
        """The model with its first weights, laid flat, and its batches, both in its number type."""
        module = self.made()
        flat = flatten(module, self.dataset.input_shape, input_dtype=dtype_of(module))
        return flat, Batches(self.dataset, self.batches, flat.parameters)

    def pieces(self, flat: FlatModel) -> Pieces:
        """The model in layers."""
        return cut(flat.module, self.dataset.input_shape, input_dtype=dtype_of(flat.module))

    @property
    def _per_epoch(self) -> int:
        return len(self.dataset.y_train) // self.samples_per_batch

    @property
    def _epochs(self) -> int:
        return self.epochs if self.iterations is None else -(-self.iterations // self._per_epoch)
