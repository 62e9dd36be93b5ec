"""Evaluations of a model in the course of its training, which take no virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from workbench.training import Epochs, FlatModel

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.datasets import Dataset


class Evaluations(Epochs):
    """Evaluates after some iterations; modules may hand in their parts one after the other.

    `at` are the iterations, counted from 1; `epoch_ends` those that end an epoch. A model is whole
    when `parts` of them have been handed in.
    """

    def __init__(
        self,
        flat: FlatModel,
        dataset: Dataset,
        at: Sequence[int],
        *,
        epoch_ends: Sequence[int],
        parts: int = 1,
    ) -> None:
        super().__init__(flat, dataset)
        self.at, self._epoch_ends, self._parts = frozenset(at), frozenset(epoch_ends), parts
        self._iterations: list[int] = []
        self._waiting: dict[int, list[tuple[slice, Tensor, Mapping[str, Tensor], float]]] = {}

    def take(
        self,
        iteration: int,
        where: slice,
        weights: Tensor,
        buffers: Mapping[str, Tensor],
        at_s: float,
    ) -> None:
        """Take a part of the vector, and its buffers, as they were after an iteration."""
        if iteration not in self.at:
            return
        waiting = self._waiting.setdefault(iteration, [])
        waiting.append((where, weights.clone(), {k: v.clone() for k, v in buffers.items()}, at_s))
        if len(waiting) < self._parts:
            return
        del self._waiting[iteration]
        merged: dict[str, Tensor] = {}
        for part, found, its, _ in waiting:
            self.flat.parameters[part].copy_(found)
            merged |= its
        self._iterations.append(iteration)
        self.evaluate(merged, max(one[-1] for one in waiting))

    @property
    def table(self) -> pl.DataFrame:
        """A row per evaluation: ``iteration``, and the columns of epochs but for their number."""
        every = super().frame.drop("epoch")
        done = pl.Series("iteration", self._iterations[: len(every)], pl.Int64)
        return every.insert_column(0, done)

    @property
    def frame(self) -> pl.DataFrame:
        """A row per epoch, in the columns of `EPOCHS`."""
        ends = self.table.filter(pl.col("iteration").is_in(sorted(self._epoch_ends)))
        return ends.drop("iteration").with_row_index("epoch", 1).cast({"epoch": pl.Int64})
