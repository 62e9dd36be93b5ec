"""What training came to, epoch by epoch, evaluated as each ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from workbench import training
from workbench.hiertrain.costs.policy import Hybrid, Policy
from workbench.hiertrain.training.learning import Learnt
from workbench.training.diverged import DivergedError

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.datasets import Dataset
    from workbench.datasets.dataset import Images, Labels

SCHEMA = {
    "epoch": pl.Int64,
    "at_s": pl.Float64,
    "loss": pl.Float64,
    "train_top1": pl.Float64,
    "train_top5": pl.Float64,
    "top1": pl.Float64,
    "top5": pl.Float64,
}


class Epochs:
    """Puts the tiers' layers together when an epoch ends, and evaluates: at no virtual time.

    Parameters
    ----------
    flat, pieces
        The model with its first weights, written to; its layers.
    policy
        Who trains which layers with how many samples.
    dataset
        To evaluate on.

    Attributes
    ----------
    flat
        The model, at the end of the last epoch that is evaluated.
    weights
        The model's flat vector at the end of the last epoch that is evaluated, or the first one.
    """

    def __init__(
        self, flat: training.FlatModel, pieces: training.Pieces, policy: Policy, dataset: Dataset
    ) -> None:
        self.weights = flat.parameters.clone()
        self.flat, self._pieces, self._dataset = flat, pieces, dataset
        self._rows = policy.rows(len(pieces))
        self._holders = holders(policy, len(pieces))
        taking_part = policy.taking_part if isinstance(policy, Hybrid) else set(self._holders)
        self._tiers = len(taking_part)
        self._learnt: dict[str, Learnt] = {}
        self._table: list[tuple[float, ...]] = []

    def __len__(self) -> int:
        return len(self._table)

    @property
    def frame(self) -> pl.DataFrame:
        """A row for each; see `workbench.hiertrain.training.train.Trained`."""
        return pl.DataFrame(self._table, schema=SCHEMA, orient="row")

    def take(self, learnt: Learnt) -> None:
        """Take what one tier has at the end of an epoch; the last one's make it whole.

        Raises
        ------
        DivergedError
            The loss over all samples is not finite.
        """
        self._learnt[learnt.tier] = learnt
        if len(self._learnt) == self._tiers:
            self._evaluate()
            self._learnt = {}

    def _evaluate(self) -> None:
        layout, data = self.flat.layout, self._dataset
        for layer, tier in enumerate(self._holders, start=1):
            where = layout.layers_slice(layer, layer)
            self.flat.parameters[where].copy_(self._learnt[tier].parameters[where])
        training.set_buffers(self.flat.module, self._buffers())
        learnt = self._evaluated(data.x_train, data.y_train)
        if not math.isfinite(learnt.loss):
            raise DivergedError(
                learnt.loss, f"over all samples at the end of epoch {len(self) + 1}"
            )
        unseen = self._evaluated(data.x_test, data.y_test)
        self.weights = self.flat.parameters.clone()
        at_s = max(one.at_s for one in self._learnt.values())
        row = (learnt.loss, learnt.top1, learnt.top5, unseen.top1, unseen.top5)
        self._table.append((len(self) + 1, at_s, *row))

    def _evaluated(self, x: Images, y: Labels) -> training.Evaluation:
        dtype = str(self.flat.parameters.dtype).removeprefix("torch.")
        return training.evaluate(self.flat.module, x.astype(dtype, copy=False), y)

    def _buffers(self) -> dict[str, Tensor]:
        """Running statistics of each layer: of all tiers that compute it, by their samples."""
        merged = dict(self._learnt[self._holders[-1]].buffers)
        for layer, names in enumerate(self._pieces.buffers, start=1):
            samples = {
                tier: count
                for tier, first, last, count in self._rows
                if first <= layer <= (last or 0)
            }
            for name in sorted(names):
                found = {tier: self._learnt[tier].buffers[name] for tier in samples}
                merged[name] = weighted(found, samples)
        return merged


def weighted(found: Mapping[str, Tensor], samples: Mapping[str, int]) -> Tensor:
    """Mean of the tiers' tensors, by their samples; of whole numbers, the largest."""
    import torch

    stacked = torch.stack(list(found.values()))
    if not stacked.is_floating_point():
        return stacked.amax(0)
    shares = torch.tensor([samples[tier] for tier in found], dtype=stacked.dtype)
    mean: Tensor = torch.tensordot(shares / shares.sum(), stacked, 1)
    return mean


def holders(policy: Policy, layers: int) -> list[str]:
    """Tier whose weights of each layer count, layer 1 first: worker o holds all."""
    if isinstance(policy, Hybrid):
        return [policy.order[0]] * layers
    return [tier for tier, first, last, _ in policy.rows() for _ in range(first, (last or 0) + 1)]
