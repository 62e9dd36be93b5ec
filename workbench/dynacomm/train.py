"""Trains a model on simulated parameter servers under a plan: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from workbench import training
from workbench.clusters import Cluster, Link, star
from workbench.dynacomm.costs import LayerCosts, layer_costs
from workbench.dynacomm.job import Job
from workbench.dynacomm.learning import ServerStore, WorkerReplica
from workbench.dynacomm.planners import PLANNERS
from workbench.dynacomm.programs import Fixed, server, worker
from workbench.dynacomm.shards import Shards, split_evenly
from workbench.names import choose
from workbench.profiles import LayerTimes, profile_model
from workbench.runtime import Program, Run, simulate

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.datasets import Dataset
    from workbench.runtime.progress import Progress


@dataclass(frozen=True)
class Setup:
    """A training run on parameter servers.

    Attributes
    ----------
    model
        Name in the zoo.
    dataset
        Fitted to the model's input, with its number of classes.
    link
        Between each worker and each server, both ways.
    flops_per_s, backward_over_forward
        What a worker sustains, and its time backward over forward.
    batch_size
        Samples of one worker in an iteration.
    epochs
        How often every sample is learnt from.
    sgd
        How the servers step.
    seed
        Of weights, batches and whatever the model draws.
    """

    model: str
    dataset: Dataset
    link: Link
    flops_per_s: float = 1e10
    backward_over_forward: float = 2.0
    workers: int = 1
    servers: int = 1
    batch_size: int = 32
    epochs: int = 1
    sgd: training.Sgd = field(default_factory=lambda: training.Sgd(0.02, momentum=0.9))
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("workers", "servers", "batch_size", "epochs"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} is {count!r}; it must be a whole number of at least 1")
        if isinstance(self.dataset, str):
            raise ValueError(
                f"dataset is the name {self.dataset!r}; give "
                f"datasets.load({self.dataset!r}), fitted to the model's input"
            )
        if self.link.tensor_s or self.link.latency_s:
            raise ValueError(
                f"the link has tensor_s {self.link.tensor_s} and latency_s {self.link.latency_s}; "
                "training charges bandwidth and overhead only, so both must be 0"
            )

    @property
    def times(self) -> LayerTimes:
        """Computation of a worker, layer by layer."""
        return LayerTimes.from_flops(
            profile_model(self.model),
            flops_per_s=self.flops_per_s,
            batch_size=self.batch_size,
            backward_over_forward=self.backward_over_forward,
        )

    @property
    def cluster(self) -> Cluster:
        """Workers first, then servers."""
        return star(self.workers, self.servers, self.link)

    @property
    def costs(self) -> LayerCosts:
        """What a planner plans with: the servers' links work at the same time."""
        bandwidth_bps = self.link.bandwidth_bps
        if not isinstance(bandwidth_bps, float | int):
            raise ValueError("costs need one bandwidth; this link's changes over time")
        joint = replace(self.link, bandwidth_bps=bandwidth_bps * self.servers)
        return layer_costs(profile_model(self.model), self.times, joint)


class Trained(NamedTuple):
    """What came of it.

    Attributes
    ----------
    epochs
        A row per epoch: ``epoch, at_s`` (virtual), ``loss, train_top1, train_top5, top1, top5``
        (fractions, of the common model with the workers' average buffers).
    weights
        The model's flat vector at the end of the last of these epochs.
    run
        The simulation behind it; ``run.interrupted`` if Ctrl-C ended it before its time.
    """

    epochs: pl.DataFrame
    weights: Tensor
    run: Run


def train(
    setup: Setup,
    planner: str = "dynacomm",
    *,
    trace: bool = False,
    progress: Progress | bool = False,
) -> Trained:
    """Train under one planner's plan.

    Parameters
    ----------
    setup
        What to train, on what.
    planner
        Name in `PLANNERS`.
    trace, progress
        As for `workbench.runtime.simulate`.

    Raises
    ------
    UnknownNameError
        No such planner or model.
    ValueError
        More workers than samples, a server without a layer.
    """
    with training.fixed_threads():
        built = build(setup, planner)
        run = simulate(
            setup.cluster, built.programs, seed=setup.seed, trace=trace, progress=progress
        )
        # What Ctrl-C interrupts has the epochs that all servers and workers are through with.
        done = min(len(one.epochs) for one in built.stores)
        done = min(done, *(len(one.buffers) for one in built.replicas))
        rows, weights = [], built.flat.parameters.clone()
        for epoch in range(done):
            weights = _assembled(built.stores, epoch)
            built.flat.parameters.copy_(weights)
            buffers = training.average_buffers([one.buffers[epoch] for one in built.replicas])
            training.set_buffers(built.flat.module, buffers)
            at_s = max(one.epochs[epoch][1] for one in built.stores)
            rows.append((epoch + 1, at_s, *_evaluated(built.flat, setup.dataset)))
    return Trained(pl.DataFrame(rows, schema=EPOCHS, orient="row"), weights, run)


EPOCHS = {
    "epoch": pl.Int64,
    "at_s": pl.Float64,
    "loss": pl.Float64,
    "train_top1": pl.Float64,
    "train_top5": pl.Float64,
    "top1": pl.Float64,
    "top5": pl.Float64,
}


class Built(NamedTuple):
    """A run before it starts.

    Attributes
    ----------
    programs
        One per node of the cluster.
    replicas, stores
        What the workers and the servers learn with.
    ends
        Iterations until the end of each epoch.
    flat
        The model with its first weights.
    """

    programs: list[Program]
    replicas: list[WorkerReplica]
    stores: list[ServerStore]
    ends: tuple[int, ...]
    flat: training.FlatModel


def build(setup: Setup, planner: str = "dynacomm") -> Built:
    """Make the programs of a run and what they learn with; errors as for `train`."""
    plan = choose("planner", planner, PLANNERS)(setup.costs)
    flat = _flat(setup)
    starts = flat.layout.starts
    shards = split_evenly(len(flat.layout), setup.servers, starts)
    batches = [_batches(setup, one) for one in range(setup.workers)]
    ends = tuple(accumulate(len(epoch) for epoch in batches[0]))
    epoch_ends = frozenset(end - 1 for end in ends)
    job = _job(setup, shards, iterations=ends[-1])
    replicas = [
        WorkerReplica(
            flat.replica(),
            setup.dataset,
            list(chain.from_iterable(batches[one])),
            setup.seed + 1_000_000 * one,
            epoch_ends,
        )
        for one in range(setup.workers)
    ]
    stores = [
        ServerStore(
            flat.parameters.clone(),
            shards.slices(position, 1, shards.layers),
            setup.sgd,
            epoch_ends,
        )
        for position in range(setup.servers)
    ]
    programs = [
        *(worker(job, Fixed(plan), replica) for replica in replicas),
        *(server(job, position, store) for position, store in enumerate(stores)),
    ]
    return Built(programs, replicas, stores, ends, flat)


def _flat(setup: Setup) -> training.FlatModel:
    module = training.initialise(setup.model, setup.seed, classes=len(setup.dataset.classes))
    return training.flatten(module, setup.dataset.input_shape)


def _batches(setup: Setup, one: int) -> list[list[np.ndarray]]:
    return [
        training.batches(
            setup.dataset,
            setup.batch_size,
            setup.seed,
            epoch,
            worker=one,
            workers=setup.workers,
        )
        for epoch in range(setup.epochs)
    ]


def _job(setup: Setup, shards: Shards, iterations: int) -> Job:
    times, profile = setup.times, profile_model(setup.model)
    weighed = np.array([setup.link.weighted_bytes(sizes) for sizes in profile.tensor_bytes])
    return Job(
        forward_s=times.table["forward_s"].to_numpy(),
        backward_s=times.table["backward_s"].to_numpy(),
        pull_bytes=weighed,
        push_bytes=weighed,
        shards=shards,
        iterations=iterations,
        workers=tuple(range(setup.workers)),
        servers=tuple(range(setup.workers, setup.workers + setup.servers)),
    )


def _assembled(stores: Sequence[ServerStore], epoch: int) -> Tensor:
    """The whole model at the end of an epoch, from the parts of all servers."""
    whole = stores[0].epochs[epoch][0].clone()
    for store in stores[1:]:
        for part in store.own:
            whole[part] = store.epochs[epoch][0][part]
    return whole


def _evaluated(flat: training.FlatModel, data: Dataset) -> tuple[float, ...]:
    """Training loss, then top-1 and top-5 in training and in validation."""
    learnt = training.evaluate(flat.module, data.x_train, data.y_train)
    unseen = training.evaluate(flat.module, data.x_test, data.y_test)
    return learnt.loss, learnt.top1, learnt.top5, unseen.top1, unseen.top5
