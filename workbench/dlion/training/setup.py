"""What workers in micro-clouds train, where, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.checks import check_number
from workbench.clusters import Cluster
from workbench.clusters.cluster import check_cluster
from workbench.datasets import partition
from workbench.decentralised.heartbeat import check_patience
from workbench.decentralised.shards import check_shards
from workbench.dlion.algorithms.global_batch import GlobalBatch, Growth, step
from workbench.dlion.costs.environments import ENVIRONMENTS, Environment
from workbench.errors import UserError
from workbench.names import check_name, choose
from workbench.profiles import LayerTimes
from workbench.training import Sgd

FIRST = ("own", "shared")


@dataclass(frozen=True, eq=False)
class Setup(training.Setup):
    """A training on workers in micro-clouds.

    It ends after `seconds` of virtual time or `iterations` of every worker, whichever comes first;
    without both, after `epochs` passes over the samples that the workers hold.

    Attributes
    ----------
    model, dataset, epochs, seed
        As for `workbench.training.Setup`.
    environment
        Name in `ENVIRONMENTS`, or an `Environment`.
    cluster
        Machines of one's own in place of an environment; links lead from each to all others.
    seconds, iterations
        When it ends.
    local_batch
        Samples in a worker's batch, at first.
    sgd
        Gradients are applied as they arrive, so with systems that exchange gradients it has a
        learning rate alone.
    shards
        Training samples of each worker; None deals out as many each at random. One that several
        workers hold counts as several, in epochs and in shares of the data.
    first_weights
        ``"own"``: each worker draws its own; ``"shared"``: all begin with the same, as they do in
        any case with those that a module brings. See the Deviation of
        `workbench.dlion.paper.testbed`.
    sample_s
        Seconds that learning from a sample takes at a worker's speed of 1, which in an
        `Environment` is one core. None derives it from `flops_per_s`.
    host_s
        Seconds of every iteration whatever its batch and cores.
    flops_per_s, backward_over_forward
        What speed 1 sustains, and its time backward over forward.
    stands_for
        Iterations of a longer training for each of this one: computing a gradient and what is sent
        in every iteration take as many times as long. What comes from time to time does not:
        timing batches, transferring the best weights.
    evaluate_every
        Iterations from one evaluation on the test samples to the next; at the end all are
        evaluated.
    patience_s
        Seconds that a worker waits for anything at most, and after which a silent peer counts as
        gone; more than a whole model takes on the slowest link, and at least a thousandth of the
        shortest batch. None waits for ever: only for runs in which nothing gets lost.

    Raises
    ------
    ValueError
        What no training takes; numbers out of range; an environment that is not there; a shard
        without samples, or not one for each worker.
    """

    environment: str | Environment | None = None
    cluster: Cluster | None = None
    seconds: float | None = None
    iterations: int | None = None
    local_batch: int = 32
    sgd: Sgd = field(default_factory=lambda: Sgd(0.1), kw_only=True)
    shards: Sequence[NDArray[np.int64]] | None = None
    first_weights: str = "own"
    sample_s: float | None = None
    host_s: float = 0.0
    flops_per_s: float = 1e10
    backward_over_forward: float = 2.0
    stands_for: float = 1.0
    evaluate_every: int = 20
    patience_s: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts(local_batch=1, evaluate_every=1)
        if self.iterations is not None:
            self._check_counts(iterations=1)
        optional = ("seconds", "sample_s", "patience_s")
        limits = [name for name in optional if getattr(self, name) is not None]
        self._check_positive(*limits, "flops_per_s", "backward_over_forward", "stands_for")
        if not 0 <= check_number("host_s", self.host_s) < math.inf:
            raise UserError(f"host_s is {self.host_s}; it must be at least 0 s and finite")
        check_name("first_weights", self.first_weights, FIRST)
        if self.shards is not None:
            object.__setattr__(
                self, "shards", check_shards(self.shards, self.network, self.dataset)
            )
        if self.patience_s is not None:
            fastest = max(max(node.speed_over_time.values) for node in self.network.nodes)
            batch_s = self.host_s + self.local_batch * self.seconds_per_sample / fastest
            check_patience(self.patience_s, batch_s * self.stands_for)
        available = len(self.dataset.y_train)
        if available < self.workers:
            raise UserError(
                f"{self.workers} workers cannot share the {available} samples of "
                f"{self.dataset.name}"
            )
        if self.local_batch > available:
            raise UserError(
                f"local_batch is {self.local_batch}, but {self.dataset.name} has {available} "
                "samples to learn from; give at most as many"
            )

    @cached_property
    def network(self) -> Cluster:
        """The machines and links."""
        where = self.environment
        if (where is None) == (self.cluster is None):
            which = "neither" if where is None else "both"
            raise UserError(
                f"{which} of environment and cluster given; give either environment, the name "
                "of one of ENVIRONMENTS, or a cluster"
            )
        if isinstance(where, Cluster):
            raise UserError("environment is a Cluster; give it as cluster=")
        if isinstance(self.cluster, Environment):
            raise UserError("cluster is an Environment; give it as environment=")
        if isinstance(where, str):
            where = choose("environment", where, ENVIRONMENTS)
        if not (where is None or isinstance(where, Environment)):
            raise UserError(
                f"environment is {where!r}; give the name of one of ENVIRONMENTS, an Environment, "
                "or a Cluster as cluster="
            )
        found = check_cluster(self.cluster) if where is None else where.cluster()
        for node in range(len(found)):
            for peer in range(len(found)):
                if peer != node:
                    found.link(node, peer)
        return found

    @property
    def workers(self) -> int:
        """How many there are."""
        return len(self.network)

    @cached_property
    def held(self) -> Sequence[NDArray[np.int64]]:
        """Training samples of each worker."""
        if self.shards is not None:
            return self.shards
        return partition.by_size(self.dataset.y_train, [1] * self.workers, seed=self.seed)

    @cached_property
    def samples(self) -> int:
        """Training samples of all workers together, those of an epoch."""
        return sum(map(len, self.held))

    @property
    def seconds_per_sample(self) -> float:
        """Seconds to learn from a sample at speed 1."""
        if self.sample_s is not None:
            return self.sample_s
        times = LayerTimes.from_flops(
            self.profile,
            flops_per_s=self.flops_per_s,
            batch_size=1,
            backward_over_forward=self.backward_over_forward,
        )
        return times.forward_s + times.backward_s

    def last_iteration(self, growth: Growth) -> float:
        """The last iteration of every worker; infinite if seconds end the run."""
        if self.iterations is not None:
            return self.iterations
        if self.seconds is not None:
            return math.inf
        state, iterations = GlobalBatch(self.local_batch * self.workers), 0
        while state.epoch < self.epochs:
            state, iterations = step(state, growth, self.samples), iterations + 1
        return iterations
