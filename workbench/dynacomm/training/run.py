"""Trains a model on simulated parameter servers under plans: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from workbench import training
from workbench.checks import check_kind, whole
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.programs.worker_and_server import Fixed, Planning, server, worker
from workbench.dynacomm.replanning.planning import PLANNING_S, Replanned, check_planning
from workbench.dynacomm.replanning.profiling import Profile
from workbench.dynacomm.replanning.rates import Rate
from workbench.dynacomm.training.learning import ServerEpochs, ServerStore, WorkerReplica
from workbench.dynacomm.training.setup import Setup
from workbench.errors import UserError
from workbench.names import choose
from workbench.runtime import Fault, Run, Synchronized
from workbench.training import Standing, Trained
from workbench.training.draws import may_run_in_parallel

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.dynacomm.algorithms import Planner
    from workbench.dynacomm.programs.job import Job
    from workbench.runtime.progress import Progress

Every = int | Literal["auto", "epoch"] | None
"""Iterations under one plan; None: all; ``"auto"``: an epoch's for the planners of `REPLANS`."""

REPLANS = ("dynacomm",)
"""Planners that plan anew in each epoch by default; the paper plans once with the others."""


@dataclass(frozen=True, eq=False)
class Built(training.Built["Trained[Tensor]"]):
    """A training before it starts.

    Attributes
    ----------
    states
        The workers' replicas; steps of several may run beside each other.
    stores
        The servers' parts of the model.
    epoch_ends
        Iterations up to the end of each epoch.
    epochs
        Evaluates the assembled model.
    """

    states: list[Synchronized[WorkerReplica]]
    stores: list[ServerStore]
    epoch_ends: tuple[int, ...]
    epochs: ServerEpochs

    @property
    def replicas(self) -> list[WorkerReplica]:
        """The workers' replicas, once the pending steps are done."""
        return [state.value for state in self.states]

    def standing(self) -> Standing:
        """By the slowest worker's iterations; losses are means over the workers."""
        replicas = self.replicas
        done = min(len(one.losses) for one in replicas)
        loss = sum(one.losses[done - 1] for one in replicas) / len(replicas) if done else None
        return Standing.of(self.epochs, len(self.epoch_ends), done, self.epoch_ends[-1], loss)

    def trained(self, run: Run) -> Trained[Tensor]:
        """The finished epochs."""
        return Trained(self.epochs.frame, self.epochs.weights, run)


def train(
    setup: Setup,
    planner: str = "dynacomm",
    *,
    replan_every: Every = "auto",
    planning_s: float = PLANNING_S,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained[Tensor]:
    """Train under one planner's plans.

    Weights are the same, bit for bit, under every plan and any `replan_every`. Each epoch is
    evaluated as it ends, which takes no virtual time.

    Parameters
    ----------
    setup
        What to train, on what.
    planner
        Name in `PLANNERS`.
    replan_every
        Iterations after which every worker, by its own profile, plans anew: ``"epoch"``, or a
        number. None keeps the first plan, which is made for the bandwidth at 0 s and a worker of
        speed 1 in any case. ``"auto"`` is ``"epoch"`` for ``"dynacomm"``, as in the paper (IV-C),
        and None for all others, of which the paper makes one plan.
    planning_s
        Seconds that planning anew takes a worker of speed 1; hidden where the last push is longer.
    faults, trace
        As for `workbench.runtime.simulate`; only faults that lose nothing, such as `SlowDown`,
        since servers wait for every worker. For others, `simulate` what `build` returns.
    progress
        True to show epochs, virtual time and loss; or a function, as for `simulate`.
    threads
        As for `simulate`. Which steps run beside each other, with the same bits for any number of
        threads, says ``parallel`` of the setup.

    Returns
    -------
    Trained
        Epochs of the common model with the workers' average buffers: ``epoch, at_s, loss,
        train_top1, train_top5, top1, top5``; ``run.results[w].plans`` are the plans of worker
        ``w``, iteration by iteration. What Ctrl-C interrupts has the finished epochs.

    Raises
    ------
    UnknownNameError
        No such planner or model.
    ValueError
        More workers than samples, a server without a layer, an impossible `replan_every` or
        `planning_s`, a fault that loses messages or a node.
    TrainingError
        The loss is not finite any more, or a worker or server failed; the error's `trained` has
        the finished epochs.
    """
    faults = training.check_losing_nothing(faults)
    with training.fixed_threads():
        built = build(setup, planner, replan_every=replan_every, planning_s=planning_s)
    return training.run(built, faults=faults, trace=trace, progress=progress, threads=threads)


def build(
    setup: Setup,
    planner: str = "dynacomm",
    *,
    replan_every: Every = "auto",
    planning_s: float = PLANNING_S,
) -> Built:
    """Make the programs of a run and what they learn with; arguments and errors as for `train`."""
    check_kind("setup", setup, Setup, "a Setup, such as Setup('lenet5', dataset, link)")
    chosen = choose("planner", planner, PLANNERS)
    check_planning(planning_s)
    every = _interval(replan_every, planner)
    flat = training.flatten(setup.made(), setup.dataset.input_shape)
    most = max(high - low for low, high in pairwise(flat.layout.starts))
    if setup.servers > most:
        raise UserError(
            f"servers is {setup.servers}; the largest layer has {most} parameters to share out, so "
            "give at most as many servers"
        )
    batches = [_batches(setup, one) for one in range(setup.workers)]
    epoch_ends = tuple(accumulate(len(epoch) for epoch in batches[0]))
    job = setup.job(epoch_ends[-1], flat.layout.starts)
    parallel = may_run_in_parallel(setup, flat)
    replicas = [
        WorkerReplica(
            flat.replica(),
            setup.dataset,
            list(chain.from_iterable(batches[one])),
            (setup.seed, one),
            epoch_ends,
            node.name,
            parallel,
        )
        for one, node in enumerate(setup.nodes)
    ]
    states = [Synchronized(replica, parallel=parallel) for replica in replicas]
    epochs = ServerEpochs(flat, setup.dataset, replicas, setup.servers)
    vector = flat.parameters.clone()
    shared = vector, setup.sgd.start(vector), vector.clone()
    stores = [
        ServerStore(
            *shared, job.shards.slices(one, 1, job.layers), setup.sgd, epoch_ends, epochs.take
        )
        for one in range(setup.servers)
    ]
    interval = epoch_ends[0] if every == "epoch" else every
    planning = _planning(setup, job, chosen, interval, planning_s)
    programs = [
        *(worker(job, planning, state) for state in states),
        *(server(job, position, store) for position, store in enumerate(stores)),
    ]
    return Built(setup, setup.cluster, programs, states, stores, epoch_ends, epochs)


def _interval(replan_every: Every, planner: str) -> int | Literal["epoch"] | None:
    if replan_every == "auto":
        return "epoch" if planner in REPLANS else None
    if replan_every is None or replan_every == "epoch":
        return replan_every
    count = whole(replan_every)
    if count is None or count < 1:
        raise UserError(
            f"replan_every is {replan_every!r}; give a whole number of iterations of at least 1, "
            "'epoch', None to keep the first plan, or 'auto'"
        )
    return count


def _planning(
    setup: Setup, job: Job, planner: Planner, every: int | None, planning_s: float
) -> Planning[Any]:
    if every is None:
        return Fixed(planner(setup.costs))
    rate = Rate(setup.link.overhead_s, setup.first_bps, setup.link.tensor_s)
    believed = Profile.before(job, rate, window=every)
    return Replanned(job, believed, every, planner, planning_s)


def _batches(setup: Setup, one: int) -> list[list[np.ndarray]]:
    return [
        training.batches(
            setup.dataset, setup.batch_size, setup.seed, epoch, worker=one, workers=setup.workers
        )
        for epoch in range(setup.epochs)
    ]
