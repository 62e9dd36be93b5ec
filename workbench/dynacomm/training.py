"""Trains a model on simulated parameter servers under plans: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from workbench import training
from workbench.clusters import Cluster, Link, Node, Schedule, star
from workbench.dynacomm.costs import LayerCosts, layer_costs
from workbench.dynacomm.learning import ServerStore
from workbench.dynacomm.planners import PLANNERS
from workbench.dynacomm.profiler import Line, Profile, Replanning, planning_s
from workbench.dynacomm.programs import FixedPlan, Job, Policy, Server, Worker, plain
from workbench.profiles import LayerTimes
from workbench.runtime import Fault, Synchronized
from workbench.training import RunOptions, Trained, TrainingError
from workbench.training.data_parallel import (
    DataParallelEpochs,
    DataParallelPrograms,
    WorkerReplica,
)
from workbench.training.evaluation import counted_labels
from workbench.training.layerwise import LayerwiseModel
from workbench.training.setup import may_run_in_parallel
from workbench.utils.checks import (
    ABOVE_ZERO,
    NOT_NEGATIVE,
    UserError,
    at_least,
    check_fields,
    check_kind,
    check_truth,
    choose,
    listed,
    optional,
    whole,
)

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.runtime import Program
    from workbench.runtime.progress import Progress

__all__ = ["PlanOptions", "Setup", "Trained", "TrainingError", "train"]

Every = int | Literal["auto", "epoch"] | None
"""Iterations under one plan; None: all; ``"auto"``: an epoch's for the planners of `REPLANS`."""

REPLANS = ("dynacomm",)
"""Planners that plan again in each epoch by default; the paper plans once with the others."""


@dataclass(frozen=True)
class PlanOptions:
    """Who plans, and how often; the fields are as for `train`."""

    planner: str = "dynacomm"
    replan_every: Every = "auto"
    planning_s: float | None = field(default=None, metadata=optional(NOT_NEGATIVE))

    def __post_init__(self) -> None:
        choose("planner", self.planner, PLANNERS)
        check_fields(self)
        every: Any = self.replan_every
        if isinstance(every, str) and every in ("auto", "epoch"):
            if every == "auto":
                every = "epoch" if self.planner in REPLANS else None
        elif every is not None and ((every := whole(every)) or 0) < 1:
            raise UserError(
                f"replan_every is {self.replan_every!r}; give a whole number of iterations of at "
                "least 1, 'epoch', None to keep the first plan, or 'auto'"
            )
        object.__setattr__(self, "replan_every", every)

    def policy(self, setup: Setup, job: Job, epoch: int) -> Policy[Any]:
        """What decides a worker's plans, in epochs of this many iterations."""
        planner, planning = PLANNERS[self.planner], self.planning_s
        if self.replan_every is None:
            return FixedPlan(planner(setup.costs))
        if planning is None:
            planning = planning_s(setup.profile.name, job.layers)
        period: Any = epoch if self.replan_every == "epoch" else self.replan_every
        line = Line(setup.link.overhead_s, setup.first_bps, setup.link.tensor_s)
        return Replanning(job, Profile.before(job, line), period, planner, planning)


@dataclass(frozen=True)
class Setup(training.Setup):
    """A training on parameter servers.

    Attributes
    ----------
    model, dataset, objective, outputs, epochs, sgd, seed
        As for `workbench.training.Setup`.
    link
        Between each worker and each server, both ways; its bandwidth may be a `Schedule`.
    flops_per_s, backward_over_forward
        What a worker of speed 1 sustains, and its time backward over forward.
    layer_times
        Seconds of a worker of speed 1 for its batch, as measured, in place of these.
    batch_size, speeds
        Samples of one worker in an iteration; the speed of each worker, if not all are 1.
    by_layer
        Compute each layer when the plan has it, as unpadded measurements need it. Otherwise a
        worker's gradient is computed at once, which is the same and simulated sooner; but masks of
        dropout are others.

    What no training takes is a ValueError. A link's `latency_s` is charged, but the cost model has
    none: each iteration waits for two (pushes, pulls; requests travel beside the pushes), and the
    first one for its request, too.
    """

    link: Link
    flops_per_s: float = field(default=1e10, metadata=ABOVE_ZERO)
    backward_over_forward: float = field(default=2.0, metadata=ABOVE_ZERO)
    workers: int = field(default=1, metadata=at_least(1))
    servers: int = field(default=1, metadata=at_least(1))
    batch_size: int = field(default=32, metadata=at_least(1))
    speeds: tuple[float, ...] = ()
    by_layer: bool = False
    layer_times: LayerTimes | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_truth("by_layer", self.by_layer)
        self._check_layer_times()
        if not isinstance(self.link, Link):
            raise UserError(f"link is {self.link!r}; give a clusters.Link")
        instead = "give one number for each worker, such as (1.0, 0.5)"
        object.__setattr__(self, "speeds", listed("speeds", self.speeds, instead))
        if not self.speeds:
            return
        if len(self.speeds) != self.workers:
            raise UserError(
                f"speeds has {len(self.speeds)} numbers for {self.workers} workers; give one "
                "each, or none"
            )
        _ = self.nodes  # refuses impossible speeds

    def _check_layer_times(self) -> None:
        times = self.layer_times
        if times is None:
            return
        if not isinstance(times, LayerTimes):
            raise UserError(f"layer_times is {times!r}; give LayerTimes, as by measure_layer_times")
        if (times.layers, times.batch_size) != (self.profile.layers, self.batch_size):
            raise UserError(
                f"layer_times are of {len(times)} layers and batches of {times.batch_size}, but "
                f"{self.profile.name} has {len(self.profile)} layers, and batch_size is "
                f"{self.batch_size}; measure the same model at the same batch size"
            )

    @property
    def times(self) -> LayerTimes:
        """Computation of a worker of speed 1, layer by layer."""
        if self.layer_times is not None:
            return self.layer_times
        return LayerTimes.from_flops(
            self.profile,
            flops_per_s=self.flops_per_s,
            batch_size=self.batch_size,
            backward_over_forward=self.backward_over_forward,
        )

    @property
    def nodes(self) -> list[Node]:
        """The workers."""
        speeds = self.speeds or (1.0,) * self.workers
        return [Node(f"worker{index}", speed=speed) for index, speed in enumerate(speeds)]

    @property
    def cluster(self) -> Cluster:
        """Workers first, then servers."""
        return star(self.nodes, self.servers, plain(self.link))

    @property
    def first_bps(self) -> float:
        """Bandwidth of a link at 0 s; the first above 0, where it begins with an outage."""
        bandwidth = self.link.bandwidth_bps
        if isinstance(bandwidth, float | int):
            return float(bandwidth)
        return next(value for value in Schedule.of(bandwidth).values if value)

    @property
    def costs(self) -> LayerCosts:
        """What a planner plans with before any observation: `first_bps`, speed 1.

        The links of all servers work at the same time, so they count as one link of their joint
        bandwidth.
        """
        joint = replace(self.link, bandwidth_bps=self.first_bps * self.servers)
        return layer_costs(self.profile, self.times, joint)

    def job(self, iterations: int, starts: Sequence[int] = ()) -> Job:
        """The training job; `starts` is where each layer begins in the flat vector."""
        return Job.of(
            self.profile,
            self.times,
            self.link,
            iterations=iterations,
            workers=self.workers,
            servers=self.servers,
            starts=starts,
        )

    def programs(self, how: str | PlanOptions = "dynacomm") -> DataParallelPrograms:
        """Programs of workers and servers, and what they learn with; errors as for `train`."""
        options = how if isinstance(how, PlanOptions) else PlanOptions(how)
        flat = self.flat()
        most = max(high - low for low, high in pairwise(flat.layout.starts))
        if self.servers > most:
            raise UserError(
                f"servers is {self.servers}; the largest layer has {most} parameters to share out, "
                "so give at most as many servers"
            )
        by_epoch = [self._batches(index) for index in range(self.workers)]
        batches = [list(chain.from_iterable(epochs)) for epochs in by_epoch]
        ends = tuple(accumulate(map(len, by_epoch[0])))
        job = self.job(ends[-1], flat.layout.starts)
        policy = options.policy(self, job, epoch=ends[0])
        parallel = may_run_in_parallel(self, flat)
        pieces = self.pieces(flat) if self.by_layer else None
        programs: list[Program] = []
        for index, node in enumerate(self.nodes):
            own = flat.replica()
            replica = WorkerReplica(
                flat=own,
                dataset=self.dataset,
                batches=batches[index],
                seed=(self.seed, index),
                epoch_ends=ends,
                name=node.name,
                parallel=parallel,
                objective=self.objective,
                layerwise=None
                if pieces is None
                else LayerwiseModel(own, pieces.on(own.module), self.objective),
            )
            programs.append(Worker(job, policy, Synchronized(replica, parallel=parallel)))
        y = self.dataset.y_train
        labels = [
            tuple(counted_labels(y[batch]) for batch in of_all)
            for of_all in zip(*batches, strict=True)
        ]
        epochs = DataParallelEpochs(flat, self.dataset, self.servers, labels, self.objective)
        for position in range(self.servers):
            held = job.held(position, 1, job.layers)
            store = ServerStore(flat.parameters, held, self.sgd, ends, labels)
            programs.append(Server(job, position, store))
        return DataParallelPrograms(
            self, self.cluster, programs, epochs, ends, losses=epochs.losses
        )

    def _batches(self, worker: int) -> list[list[np.ndarray]]:
        """Indices of a worker's samples, by epoch and iteration."""
        return [
            training.batches(
                self.dataset, self.batch_size, self.seed, epoch, worker=worker, workers=self.workers
            )
            for epoch in range(self.epochs)
        ]

    def check_faults(self, faults: Sequence[Fault], how: object) -> None:
        """Refuse those that lose anything: servers wait for every worker."""
        training.check_losing_nothing(faults)


def train(
    setup: Setup,
    planner: str = "dynacomm",
    *,
    replan_every: Every = "auto",
    planning_s: float | None = None,
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
    setup, planner
        What to train, on what; a name in `PLANNERS`.
    replan_every
        Iterations after which every worker, by its own profile, plans again: ``"epoch"``, or a
        number. None keeps the first plan, which is made for the bandwidth at 0 s and a worker of
        speed 1 in any case. ``"auto"`` is ``"epoch"`` for ``"dynacomm"``, as in the paper (IV-C),
        and None for all others, of which the paper makes one plan.
    planning_s
        Seconds that planning again takes a worker of speed 1; hidden where the last push is longer.
        By default what the paper measured for the model (`workbench.dynacomm.profiler.planning_s`).
    faults, trace, progress, threads
        As for `training.RunOptions`; only faults that lose nothing, such as `SlowDown`, since
        servers wait for every worker. For others, `simulate` what ``setup.programs`` returns.

    Returns
    -------
    Trained
        Epochs of the common model with the workers' average buffers: ``epoch, at_s, loss``, of
        classes ``train_top1, train_top5, top1, top5``; ``run.results[w].plans`` are the plans of
        worker ``w``, iteration by iteration. What Ctrl-C interrupts has the finished epochs.

    Raises
    ------
    ValueError
        No such planner, more workers than samples, a server without a layer, an impossible
        `replan_every` or `planning_s`, a fault that loses messages or a node.
    TrainingError
        The loss is not finite any more, or a worker or server failed; the error's `trained` has
        the finished epochs.
    """
    check_kind("setup", setup, Setup, "a Setup, such as Setup('lenet5', dataset, link)")
    plans = PlanOptions(planner, replan_every, planning_s)
    return training.train(setup, plans, RunOptions(faults, trace, progress, threads))
