"""What trainings without a server share: who learns from which samples, how long to wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.datasets import partition
from workbench.decentralised.mixing import Mixing, as_mixing
from workbench.profiles import LayerTimes
from workbench.training import Sgd
from workbench.utils.checks import (
    ABOVE_ZERO,
    UserError,
    at_least,
    check_number,
    listed,
    optional,
)

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.clusters import Cluster
    from workbench.datasets import Dataset
    from workbench.profiles import ModelProfile
    from workbench.runtime import Fault

MOST_PATIENCES = 1000  # in a batch: more, and a run does little else than send heartbeats


@dataclass(frozen=True, eq=False)
class PeerSetup(training.Setup, ABC):
    """A training without a server; each system's has its own `network`.

    Attributes
    ----------
    shards
        Indices of the training samples of each node; see `workbench.datasets.partition`. They may
        overlap. None deals out as many each at random.
    patience_s
        Seconds of silence after which a peer counts as gone. Heartbeats come three times as often,
        behind what their link carries, so it must exceed one and a half times the transfer of a
        model (in NoLoCo, of two) on the slowest link; it is at least a thousandth of the shortest
        batch. None waits for ever: only for runs in which nothing gets lost.
    """

    shards: Sequence[NDArray[np.int64]] | None = field(default=None, kw_only=True)
    patience_s: float | None = field(default=None, kw_only=True, metadata=optional(ABOVE_ZERO))
    evaluate_every: int = field(default=1, kw_only=True, metadata=at_least(1))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shards is not None:
            shards = _check_shards(self.shards, self.nodes, self.dataset)
            object.__setattr__(self, "shards", shards)
        elif len(self.dataset.y_train) < self.nodes:
            raise UserError(
                f"{self.nodes} workers cannot share the {len(self.dataset.y_train)} samples of "
                f"{self.dataset.name}"
            )

    @property
    @abstractmethod
    def network(self) -> Cluster:
        """The machines and links."""

    @property
    def nodes(self) -> int:
        """How many there are."""
        return len(self.network)

    @cached_property
    def held(self) -> Sequence[NDArray[np.int64]]:
        """Training samples of each node."""
        if self.shards is not None:
            return self.shards
        return partition.by_size(self.dataset.y_train, [1] * self.nodes, seed=self.seed)

    @cached_property
    def samples(self) -> int:
        """Training samples of all nodes together, those of an epoch."""
        return sum(map(len, self.held))

    def check_faults(self, faults: Sequence[Fault], how: object) -> None:
        """Refuse those that lose something, if nodes wait for ever."""
        if self.patience_s is None and self.nodes > 1:
            training.check_losing_nothing(
                faults, "give patience_s=..., the seconds after which a silent peer counts as gone"
            )

    def _check_patience(self, batch_s: float) -> None:
        """Refuse a patience that is too short for the shortest batch's seconds."""
        assert self.patience_s is not None
        if self.patience_s < (least_s := batch_s / MOST_PATIENCES):
            raise UserError(
                f"patience_s is {self.patience_s:g}, so that peers would send thousands of "
                f"heartbeats in a batch; give at least {least_s:g}, a thousandth of the shortest "
                f"batch of {batch_s:g} s, and more than 1.5 times what a model takes on the "
                "slowest link"
            )


@dataclass(frozen=True, eq=False)
class Gossip(PeerSetup):
    """A training by exchanges of models with peers; each system's says who computes how fast.

    Attributes
    ----------
    mixing
        Weights of one exchange an epoch, for which every node waits; or None. A doubly stochastic
        matrix is made a `Mixing`, and so is a graph, with Metropolis-Hastings weights.
    probability
        With which a node sends its model after a step, as GoSGD does; or None. Give one of the two.
    batch_size
        Of each node.
    evaluate_every
        Epochs from one evaluation on the test samples to the next; the last is always evaluated.
    """

    mixing: Mixing | None = field(default=None, kw_only=True)
    probability: float | None = field(default=None, kw_only=True)
    batch_size: int = field(default=64, kw_only=True, metadata=at_least(1))
    sgd: Sgd = field(default_factory=lambda: Sgd(0.01, momentum=0.9), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_exchange()
        if self.patience_s is not None:
            batches_s = [
                min(self.batch_size, len(shard)) * sample_s / max(node.speed_over_time.values)
                for node, shard, sample_s in zip(
                    self.network.nodes, self.held, self.seconds_per_sample, strict=True
                )
            ]
            self._check_patience(min(batches_s))

    @property
    @abstractmethod
    def seconds_per_sample(self) -> tuple[float, ...]:
        """Seconds to learn from a sample at speed 1, by node."""

    @abstractmethod
    def programs(self, how: Any = None) -> training.Programs[training.Trained[tuple[Tensor, ...]]]:
        """Programs of the nodes, and what they learn with; `how` says from which samples."""

    def _check_exchange(self) -> None:
        if (self.mixing is None) == (self.probability is None):
            raise UserError(
                "give either mixing, for one exchange an epoch, or probability, for GoSGD"
            )
        if self.mixing is not None:
            mixing = as_mixing(self.mixing)
            object.__setattr__(self, "mixing", mixing)
            if len(mixing) != self.nodes:
                raise UserError(f"mixing is for {len(mixing)} nodes, not for {self.nodes}")
            for node in range(self.nodes):
                for target in mixing.targets(node):
                    self.network.link(node, target)
            return
        probability = check_number("probability", self.probability)
        if not 0 <= probability <= 1:
            raise UserError(f"probability is {probability}; it must be between 0 and 1")
        object.__setattr__(self, "probability", probability)
        for node, name in enumerate(self.network.names):
            if self.nodes > 1 and not self.network.targets(node):
                raise UserError(f"no link leads from {name}, so it could send its model to nobody")


def sample_seconds(
    profile: ModelProfile, flops_per_s: float, backward_over_forward: float
) -> float:
    """Seconds to learn from a sample at this many FLOPs a second."""
    times = LayerTimes.from_flops(
        profile,
        flops_per_s=flops_per_s,
        batch_size=1,
        backward_over_forward=backward_over_forward,
    )
    return times.forward_s + times.backward_s


def _check_shards(shards: object, nodes: int, dataset: Dataset) -> tuple[NDArray[np.int64], ...]:
    """Return indices of the training samples of each node, as arrays."""
    instead = (
        "give the indices of each node's samples, such as "
        "partition.by_size(dataset.y_train, [1] * nodes, seed=0)"
    )
    arrays = tuple(map(np.asarray, listed("shards", shards, instead)))
    if len(arrays) != nodes:
        raise UserError(f"{len(arrays)} shards for a cluster of {nodes} nodes; each node needs one")
    count = len(dataset.y_train)
    for node, shard in enumerate(arrays):
        if shard.ndim != 1 or not len(shard):
            raise UserError(
                f"the shard of node {node} is of shape {shard.shape}; give the indices of at "
                "least one sample"
            )
        if not np.issubdtype(shard.dtype, np.integer):
            raise UserError(
                f"the shard of node {node} is of {shard.dtype}; give integers, the indices of its "
                "samples"
            )
        if shard.min() < 0 or shard.max() >= count:
            raise UserError(
                f"the shard of node {node} has indices from {shard.min()} to {shard.max()}, "
                f"but {dataset.name} has training samples 0 to {count - 1}"
            )
    return arrays
