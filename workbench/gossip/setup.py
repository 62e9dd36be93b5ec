"""A decentralised training run, checked before it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.checks import check_dataset
from workbench.gossip.mixing import Mixing
from workbench.names import choose
from workbench.profiles import LayerTimes, profile_model
from workbench.training import Sgd
from workbench.zoo import MODELS

if TYPE_CHECKING:
    from workbench.clusters import Cluster
    from workbench.datasets import Dataset


@dataclass(frozen=True, eq=False)
class GossipSetup:
    """Who learns what from which samples, and how models are exchanged.

    Attributes
    ----------
    model
        Name in the zoo.
    dataset
        Fitted to the model's input, with its number of classes.
    shards
        Indices of the training samples of each node; see `workbench.datasets.partition`. They may
        overlap.
    cluster
        A node for each shard, linked with its peers.
    mixing
        Weights of one exchange an epoch, for which every node waits; or None.
    probability
        With which a node sends its model after a step, as GoSGD does; or None. Give one of the two.
    batch_size, epochs, sgd
        Of each node. Velocities stay where they are, only parameters are exchanged.
    sample_s
        Seconds that learning from a sample takes at a node's speed of 1: for all, or for each
        node. None derives it from `flops_per_s`.
    flops_per_s, backward_over_forward
        What nodes sustain, all or each, and their time backward over forward.
    patience_s
        Seconds without a sign of life after which a peer counts as gone; signs come three times as
        often, behind what their link carries, so it must exceed what a model takes on the slowest.
        None waits for ever: only for runs in which nothing gets lost.
    evaluate_every
        Epochs from one evaluation on the test samples to the next; the last is always evaluated.
    seed
        Of weights, shuffles, and whatever models and programs draw.
    """

    model: str
    dataset: Dataset
    shards: Sequence[NDArray[np.int64]]
    cluster: Cluster
    mixing: Mixing | None = None
    probability: float | None = None
    batch_size: int = 64
    epochs: int = 1
    sgd: Sgd = field(default_factory=lambda: Sgd(0.01, momentum=0.9))
    sample_s: float | Sequence[float] | None = None
    flops_per_s: float | Sequence[float] = 1e10
    backward_over_forward: float = 2.0
    patience_s: float | None = None
    evaluate_every: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        model = choose("model", self.model, MODELS)
        for name in ("batch_size", "epochs", "evaluate_every"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} is {count!r}; it must be a whole number of at least 1")
        check_dataset(self.dataset, model.name, model.input_shape)
        if self.patience_s is not None and not 0 < self.patience_s < math.inf:
            raise ValueError(f"patience_s is {self.patience_s}; give seconds above 0, or None")
        object.__setattr__(self, "shards", tuple(map(np.asarray, self.shards)))
        self._check_shards()
        self._check_exchange()
        for name in ("sample_s", "flops_per_s"):
            given = getattr(self, name)
            if given is not None:
                self._check_each(name, given)

    @property
    def nodes(self) -> int:
        """How many nodes learn."""
        return len(self.shards)

    @property
    def seconds_per_sample(self) -> tuple[float, ...]:
        """What learning from a sample is charged with, by node, at speed 1."""
        if self.sample_s is not None:
            return self._each(self.sample_s)
        profile = profile_model(self.model)
        return tuple(
            times.forward_s + times.backward_s
            for flops_per_s in self._each(self.flops_per_s)
            for times in [
                LayerTimes.from_flops(
                    profile,
                    flops_per_s=flops_per_s,
                    batch_size=1,
                    backward_over_forward=self.backward_over_forward,
                )
            ]
        )

    def _each(self, given: float | Sequence[float]) -> tuple[float, ...]:
        if isinstance(given, float | int):
            return (float(given),) * self.nodes
        return tuple(map(float, given))

    def _check_each(self, name: str, given: float | Sequence[float]) -> None:
        numbers = self._each(given)
        if len(numbers) != self.nodes:
            raise ValueError(
                f"{name} has {len(numbers)} numbers for {self.nodes} nodes; give one for all, or "
                "one for each"
            )
        if not all(0 < number < math.inf for number in numbers):
            raise ValueError(f"{name} is {given}; it must be above 0 and finite")

    def _check_shards(self) -> None:
        if len(self.shards) != len(self.cluster):
            raise ValueError(
                f"{len(self.shards)} shards for a cluster of {len(self.cluster)} nodes; each node "
                "needs one"
            )
        count = len(self.dataset.y_train)
        for node, shard in enumerate(self.shards):
            whole = np.issubdtype(shard.dtype, np.integer)
            if shard.ndim != 1 or not len(shard) or not whole:
                raise ValueError(
                    f"the shard of node {node} is {shard.dtype} of shape {shard.shape}; give the "
                    "indices of at least one sample"
                )
            if shard.min() < 0 or shard.max() >= count:
                raise ValueError(
                    f"the shard of node {node} has indices from {shard.min()} to {shard.max()}, "
                    f"but {self.dataset.name} has training samples 0 to {count - 1}"
                )

    def _check_exchange(self) -> None:
        if (self.mixing is None) == (self.probability is None):
            raise ValueError(
                "give either mixing, for one exchange an epoch, or probability, for GoSGD"
            )
        if self.mixing is not None:
            if len(self.mixing) != self.nodes:
                raise ValueError(f"mixing is for {len(self.mixing)} nodes, not for {self.nodes}")
            for node in range(self.nodes):
                for target in self.mixing.targets(node):
                    self.cluster.link(node, target)
            return
        assert self.probability is not None
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is {self.probability}; it must be between 0 and 1")
        for node, name in enumerate(self.cluster.names):
            if self.nodes > 1 and not self.cluster.targets(node):
                raise ValueError(f"no link leads from {name}, so it could send its model to nobody")
