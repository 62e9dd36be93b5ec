"""The base of all setups of trainings without a server: shards, patience, exchange."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.datasets import partition
from workbench.decentralised.exchange import MakeExchange
from workbench.decentralised.exchanges.gossip import Gossip
from workbench.decentralised.job import Job
from workbench.decentralised.learner import PeerLearner
from workbench.profiles import LayerTimes
from workbench.runtime import Synchronized
from workbench.training import Sgd
from workbench.training.setup import may_run_in_parallel
from workbench.utils.checks import ABOVE_ZERO, UserError, at_least, listed, optional

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.clusters import Cluster
    from workbench.datasets import Dataset
    from workbench.profiles import ModelProfile
    from workbench.runtime import Fault
    from workbench.training import FlatModel

MOST_PATIENCES = 1000  # in a batch: more, and a run does little else than send heartbeats
BACKWARD_OVER_FORWARD = 2.0  # seconds of a pass, where only FLOPs are known


@dataclass(frozen=True, eq=False)
class PeerSetup(training.Setup, ABC):
    """A training without a server, with attributes as for `GossipSetup`.

    Each system's setup has its own `network`.
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
    @abstractmethod
    def seconds_per_sample(self) -> tuple[float, ...]:
        """Seconds to learn from a sample at speed 1, by node."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
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

    def learners(self, models: Sequence[FlatModel]) -> list[Synchronized[PeerLearner]]:
        """Each node's learner, with a copy of its model; steps may run beside each other."""
        parallel = may_run_in_parallel(self, models[0])
        return [
            Synchronized(
                PeerLearner(
                    node,
                    self.seed,
                    flat.replica(),
                    flat.parameters,
                    self.dataset,
                    self.sgd,
                    name,
                    parallel=parallel,
                    objective=self.objective,
                ),
                parallel=parallel,
            )
            for node, (name, flat) in enumerate(zip(self.network.names, models, strict=True))
        ]

    def job(self, **options: Any) -> Job:
        """Make the job that all workers share; `options` are its other fields."""
        return Job(
            network=self.network,
            shards=self.held,
            epoch_samples=self.samples,
            seed=self.seed,
            sample_s=self.seconds_per_sample,
            learning_rate=self.sgd.learning_rate,
            evaluate_every=self.evaluate_every,
            patience_s=math.inf if self.patience_s is None else self.patience_s,
            **options,
        )

    def check_faults(self, faults: Sequence[Fault], how: object) -> None:
        """Refuse faults that lose something, if nodes wait for ever."""
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
class EpochSetup(PeerSetup, ABC):
    """A training without a server by epochs, with attributes as for `GossipSetup`."""

    exchange: MakeExchange | None = field(default=None, kw_only=True)
    batch_size: int = field(default=64, kw_only=True, metadata=at_least(1))
    sgd: Sgd = field(default_factory=lambda: Sgd(0.01, momentum=0.9), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exchange is None:
            object.__setattr__(self, "exchange", Gossip.along_links(self.network))
        exchange = check_exchange(self.exchange, self.network)
        if exchange.in_lockstep:
            batches = {-(-len(shard) // self.batch_size) for shard in self.held}
            if len(batches) > 1:
                raise UserError(
                    f"nodes have from {min(batches)} to {max(batches)} batches an epoch, but "
                    f"{type(exchange).__name__} needs as many of each; give shards of equal sizes"
                )
            if message := exchange.too_short(self.epochs * batches.pop()):
                raise UserError(message)
        if self.patience_s is not None:
            batches_s = [
                min(self.batch_size, len(shard)) * sample_s / max(node.speed_over_time.values)
                for node, shard, sample_s in zip(
                    self.network.nodes, self.held, self.seconds_per_sample, strict=True
                )
            ]
            self._check_patience(min(batches_s))

    @abstractmethod
    def programs(self, how: Any = None) -> training.Programs[training.Trained[tuple[Tensor, ...]]]:
        """Programs of the nodes; `how` selects their samples."""


def check_exchange(exchange: object, cluster: Cluster) -> MakeExchange:
    """Refuse anything but an exchange that can run on a cluster."""
    if not isinstance(exchange, MakeExchange):
        raise UserError(
            f"exchange is {exchange!r}; give one such as decentralised.Gossip(ring(8)), "
            "GoSgd(0.1), DiLoCo(period=50) or decentralised.EXCHANGES['noloco']"
        )
    exchange.check(cluster)
    return exchange


def sample_seconds(profile: ModelProfile, flops_per_s: float) -> float:
    """Seconds to learn from a sample at this many FLOPs a second."""
    times = LayerTimes.from_flops(
        profile,
        flops_per_s=flops_per_s,
        batch_size=1,
        backward_over_forward=BACKWARD_OVER_FORWARD,
    )
    return times.forward_s + times.backward_s


def _check_shards(shards: object, nodes: int, dataset: Dataset) -> tuple[NDArray[np.int64], ...]:
    """Return indices of the training samples of each node, as arrays."""
    instead = (
        "give the indices of each node's samples, such as "
        "partition.by_size(dataset.y_train, [1] * nodes, seed=0)"
    )
    in_order = listed("shards", shards, instead)
    try:
        arrays = tuple(map(np.asarray, in_order))
    except ValueError:  # of a shard whose rows differ in length
        raise UserError(f"shards is {shards!r}; {instead}") from None
    if len(arrays) != nodes:
        raise UserError(f"{len(arrays)} shards for a cluster of {nodes} nodes; each node needs one")
    count = len(dataset.y_train)
    for node, shard in enumerate(arrays):
        fits = shard.ndim == 1 and len(shard) and np.issubdtype(shard.dtype, np.integer)
        if not (fits and shard.min() >= 0 and shard.max() < count):
            raise UserError(
                f"the shard of node {node} is {np.array2string(shard, threshold=6)}; give the "
                f"indices of at least one of the training samples, 0 to {count - 1}"
            )
    return arrays
