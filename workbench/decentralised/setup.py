"""A decentralised training run, checked before it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.checks import check_number, is_number, listed
from workbench.clusters.cluster import check_cluster
from workbench.decentralised.heartbeat import check_patience
from workbench.decentralised.mixing import Mixing, as_mixing
from workbench.decentralised.shards import check_shards
from workbench.errors import UserError
from workbench.profiles import LayerTimes
from workbench.training import Sgd

if TYPE_CHECKING:
    from workbench.clusters import Cluster


@dataclass(frozen=True, eq=False)
class GossipSetup(training.Setup):
    """Who learns what from which samples, and how models are exchanged.

    Attributes
    ----------
    model, dataset, epochs, sgd, seed
        As for `workbench.training.Setup`. Only parameters are exchanged, no velocities.
    shards
        Indices of the training samples of each node; see `workbench.datasets.partition`. They may
        overlap.
    cluster
        A node for each shard, linked with its peers.
    mixing
        Weights of one exchange an epoch, for which every node waits; or None. A doubly stochastic
        matrix is made a `Mixing`, and so is a graph, with Metropolis-Hastings weights.
    probability
        With which a node sends its model after a step, as GoSGD does; or None. Give one of the two.
    batch_size
        Of each node.
    sample_s
        Seconds that learning from a sample takes at a node's speed of 1: for all, or for each
        node. None derives it from `flops_per_s`.
    flops_per_s, backward_over_forward
        What nodes sustain, all or each, and their time backward over forward.
    patience_s
        Seconds of silence after which a peer counts as gone. Heartbeats come three times as often,
        behind what their link carries, so it must exceed a model's transfer on the slowest link;
        it is at least a thousandth of the shortest batch. None waits for ever: only for runs in
        which nothing gets lost.
    evaluate_every
        Epochs from one evaluation on the test samples to the next; the last is always evaluated.

    Raises
    ------
    ValueError
        What no training takes; numbers out of range; a shard without samples or with some that are
        not there; not a node for each shard; a mixing or probability that cannot be, or both.
    workbench.clusters.MissingLinkError
        A node takes of the model of one from which no link leads to it.
    """

    shards: Sequence[NDArray[np.int64]]
    cluster: Cluster
    mixing: Mixing | None = None
    probability: float | None = None
    batch_size: int = 64
    sgd: Sgd = field(default_factory=lambda: Sgd(0.01, momentum=0.9), kw_only=True)
    sample_s: float | Sequence[float] | None = None
    flops_per_s: float | Sequence[float] = 1e10
    backward_over_forward: float = 2.0
    patience_s: float | None = None
    evaluate_every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts(batch_size=1, evaluate_every=1)
        check_cluster(self.cluster)
        shards = check_shards(self.shards, self.cluster, self.dataset)
        object.__setattr__(self, "shards", shards)
        self._check_exchange()
        for name in ("sample_s", "flops_per_s"):
            if getattr(self, name) is not None:
                self._check_each(name, getattr(self, name))
        self._check_positive("backward_over_forward")
        self._check_patience()

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.shards)

    @property
    def seconds_per_sample(self) -> tuple[float, ...]:
        """Seconds to learn from a sample at speed 1, by node."""
        if self.sample_s is not None:
            return self._each(self.sample_s)
        each = self._each(self.flops_per_s)
        times = {  # of each kind of node
            flops_per_s: LayerTimes.from_flops(
                self.profile,
                flops_per_s=flops_per_s,
                batch_size=1,
                backward_over_forward=self.backward_over_forward,
            )
            for flops_per_s in dict.fromkeys(each)
        }
        sample_s = {rate: found.forward_s + found.backward_s for rate, found in times.items()}
        return tuple(sample_s[flops_per_s] for flops_per_s in each)

    def _each(self, value: object) -> tuple[float, ...]:
        numbers = [value] * self.nodes if is_number(value) else value
        return tuple(map(float, cast("Sequence[float]", numbers)))

    def _check_patience(self) -> None:
        if self.patience_s is None:
            return
        self._check_positive("patience_s")
        batches_s = [
            min(self.batch_size, len(shard)) * sample_s / max(node.speed_over_time.values)
            for node, shard, sample_s in zip(
                self.cluster.nodes, self.shards, self.seconds_per_sample, strict=True
            )
        ]
        check_patience(self.patience_s, min(batches_s))

    def _check_each(self, name: str, value: object) -> None:
        instead = "give one number for all nodes, or one for each"
        numbers = [value] if is_number(value) else listed(name, value, instead)
        if not all(map(is_number, numbers)):
            raise UserError(f"{name} is {value!r}; {instead}")
        numbers = self._each(value)
        if len(numbers) != self.nodes:
            raise UserError(
                f"{name} has {len(numbers)} numbers for {self.nodes} nodes; give one for all, or "
                "one for each"
            )
        if not all(0 < number < math.inf for number in numbers):
            raise UserError(f"{name} is {value}; it must be above 0 and finite")

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
                    self.cluster.link(node, target)
            return
        probability = check_number("probability", self.probability)
        if not 0 <= probability <= 1:
            raise UserError(f"probability is {probability}; it must be between 0 and 1")
        object.__setattr__(self, "probability", probability)
        for node, name in enumerate(self.cluster.names):
            if self.nodes > 1 and not self.cluster.targets(node):
                raise UserError(f"no link leads from {name}, so it could send its model to nobody")
