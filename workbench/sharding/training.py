"""Training on nodes that share out a model: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.clusters import Cluster
from workbench.profiles import LayerTimes
from workbench.runtime import Fault, Program, Synchronized
from workbench.sharding.costs import Problem
from workbench.sharding.learning import Replica
from workbench.sharding.programs import worker
from workbench.sharding.schedules import Plan
from workbench.training import RunOptions, Trained
from workbench.training.data_parallel import (
    DataParallelEpochs,
    DataParallelPrograms,
    WorkerReplica,
)
from workbench.training.evaluation import counted_labels
from workbench.training.layerwise import LayerwiseModel
from workbench.training.setup import may_run_in_parallel
from workbench.utils.checks import ABOVE_ZERO, UserError, at_least, check_kind

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.runtime.progress import Progress


@dataclass(frozen=True)
class Setup(training.Setup):
    """A data-parallel training on nodes that all reach each other.

    Every node learns from batches of its own; batch normalisation sees these alone, as in PyTorch's
    DistributedDataParallel, and epochs are evaluated with the mean of the nodes' running
    statistics. Frozen parameters stay on every node.

    Attributes
    ----------
    model, dataset, objective, outputs, epochs, sgd, seed
        As for `workbench.training.Setup`.
    cluster
        The nodes, with their speeds, and a link from each to each other one.
    batch_size
        Samples of each node in an iteration.
    flops_per_s, backward_over_forward
        FLOP/s that a node of speed 1 sustains, and its backward over its forward time.
    """

    cluster: Cluster
    batch_size: int = field(default=32, metadata=at_least(1))
    flops_per_s: float = field(default=1e10, metadata=ABOVE_ZERO)
    backward_over_forward: float = field(default=2.0, metadata=ABOVE_ZERO)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("cluster", self.cluster, Cluster, "a Cluster, such as full_mesh(4, link)")
        for pair in permutations(range(len(self.cluster)), 2):
            if pair not in self.cluster.links:
                a, b = (self.cluster.names[node] for node in pair)
                raise UserError(f"no link leads from {a} to {b}; link each node to each other one")

    @property
    def problem(self) -> Problem:
        """Problem for the planners, with nodes at speed 1."""
        times = LayerTimes.from_flops(
            self.profile,
            flops_per_s=self.flops_per_s,
            batch_size=self.batch_size,
            backward_over_forward=self.backward_over_forward,
        )
        forward_s, backward_s, update_s = (
            np.tile(times.table[column].to_numpy(), (len(self.cluster), 1))
            for column in ("forward_s", "backward_s", "update_s")
        )
        return Problem(
            forward_s=forward_s,
            backward_s=backward_s,
            update_s=update_s,
            param_bytes=self.profile.table["param_bytes"].to_numpy(),
            links={(a, b): link for (a, b), link in self.cluster.links.items()},
            tied=self.profile.tied,
            optimiser_vectors=float(self.sgd.momentum > 0),
        )

    def programs(self, how: Plan) -> DataParallelPrograms:
        """Programs of the nodes with their replicas; `how` is the plan; errors as for `train`."""
        flat, problem, count = self.flat(), self.problem, len(self.cluster)
        buckets, pieces = problem.buckets(how), self.pieces(flat)
        by_epoch = [self._batches(node) for node in range(count)]
        batches = [list(chain.from_iterable(epochs)) for epochs in by_epoch]
        ends = tuple(accumulate(map(len, by_epoch[0])))
        y = self.dataset.y_train
        labels = [
            tuple(counted_labels(y[batch]) for batch in of_all)
            for of_all in zip(*batches, strict=True)
        ]
        parallel = may_run_in_parallel(self, flat)
        programs: list[Program] = []
        for node, name in enumerate(self.cluster.names):
            own = flat.replica()
            learner = WorkerReplica(
                flat=own,
                dataset=self.dataset,
                batches=batches[node],
                seed=(self.seed, node),
                epoch_ends=ends,
                name=name,
                parallel=parallel,
                objective=self.objective,
                layerwise=LayerwiseModel(own, pieces.on(own.module), self.objective),
            )
            replica = Replica(
                worker=learner,
                stage=how.stage,
                buckets=buckets,
                place=node,
                nodes=count,
                sgd=self.sgd,
                labels=labels,
            )
            shared = Synchronized(replica, parallel=parallel)
            programs.append(worker(problem, how, node, iterations=ends[-1], replica=shared))
        epochs = DataParallelEpochs(flat, self.dataset, count, labels, self.objective)
        return DataParallelPrograms(
            self, self.cluster, programs, epochs, ends, losses=epochs.losses
        )

    def _batches(self, node: int) -> list[list[NDArray[np.int64]]]:
        """Indices of a node's samples, by epoch and iteration."""
        return [
            training.batches(
                self.dataset,
                self.batch_size,
                self.seed,
                epoch,
                worker=node,
                workers=len(self.cluster),
            )
            for epoch in range(self.epochs)
        ]

    def check_faults(self, faults: Sequence[Fault], how: object) -> None:
        """Refuse faults that lose anything: each node waits for all others."""
        training.check_losing_nothing(faults)


def train(
    setup: Setup,
    plan: Plan,
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained[Tensor]:
    """Train under a plan, such as ``PLANNERS["zero-2"](setup.problem)``.

    Weights are the same, bit for bit, under every plan. Each epoch is evaluated as it ends, which
    takes no virtual time.

    Parameters
    ----------
    faults, trace, progress, threads
        As for `training.RunOptions`; only faults that lose nothing, such as `SlowDown`.

    Returns
    -------
    Trained
        Epochs of the common model with the nodes' average buffers.

    Raises
    ------
    ValueError
        A plan of another model, more nodes than samples, a fault that loses messages or a node.
    TrainingError
        The loss is not finite any more, or a node failed; the error's `trained` has the finished
        epochs.
    """
    check_kind("setup", setup, Setup, "a sharding.Setup")
    check_kind("plan", plan, Plan, "a sharding.Plan")
    return training.train(setup, plan, RunOptions(faults, trace, progress, threads))
