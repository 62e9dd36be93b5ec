"""Training on workers in micro-clouds: true learning, virtual time.

>>> from workbench import datasets
>>> from workbench.dlion import Setup, train
>>> digits = datasets.load("digits").limit(train=120, test=20)
>>> trained = train(Setup("cipher_small", digits, "homo_b", iterations=2), "baseline")
>>> trained.iterations["samples"].to_list() == [32] * 12
True
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import training
from workbench.clusters import Cluster
from workbench.clusters.cluster import check_cluster
from workbench.decentralised.exchange import MakeExchange
from workbench.decentralised.exchanges import EXCHANGES
from workbench.decentralised.exchanges.gossip import Gossip
from workbench.decentralised.job import Job
from workbench.decentralised.learner import Model
from workbench.decentralised.setup import PeerSetup, check_exchange, sample_seconds
from workbench.dlion.algorithms import SYSTEMS, System
from workbench.dlion.algorithms.global_batch import CONSTANT, GlobalBatch, Growth, step
from workbench.dlion.algorithms.synchronisation import MUST
from workbench.dlion.costs.environments import ENVIRONMENTS, Environment
from workbench.dlion.programs.program import WorkerModel, WorkerProgram
from workbench.dlion.programs.recorder import WorkerRecorder
from workbench.runtime import DeadlockError, Fault, Run, SimulationError
from workbench.training import RunOptions, Sgd, Standing, TrainingError, evaluate, get_buffers
from workbench.training.flat_model import set_buffers
from workbench.training.models import make_model
from workbench.training.repeatable import FIRST_WEIGHTS, derive
from workbench.training.trained import metrics_of_each, schema
from workbench.utils.checks import (
    ABOVE_ZERO,
    NOT_NEGATIVE,
    UserError,
    at_least,
    check_kind,
    check_name,
    choose,
    optional,
)

if TYPE_CHECKING:
    from workbench.runtime.progress import Progress
    from workbench.training import FlatModel

__all__ = ["Setup", "Trained", "TrainingError", "train"]

FIRST = ("own", "shared")


@dataclass(frozen=True, eq=False)
class Setup(PeerSetup):
    """A training on workers in micro-clouds.

    It ends after `seconds` of virtual time or `iterations` of every worker, whichever comes first;
    without both, after `epochs` passes over the samples that the workers hold.

    Attributes
    ----------
    model, dataset, objective, outputs, epochs, seed
        As for `workbench.training.Setup`.
    environment
        Name in `ENVIRONMENTS`, or an `Environment`.
    cluster
        Machines of one's own in place of an environment; links lead from each to all others.
    local_batch
        Samples in a worker's batch, at first.
    sgd
        Gradients are applied as they arrive, so with systems that exchange gradients it has a
        learning rate alone.
    shards
        As for `workbench.decentralised.GossipSetup`. A sample of several workers counts as several.
    first_weights
        ``"own"``: each worker draws its own; ``"shared"``: all begin with the same, as they do in
        any case with those that a module brings. See the Deviation of
        `workbench.dlion.paper.testbed`.
    sample_s
        Seconds that learning from a sample takes at a worker's speed of 1, which in an
        `Environment` is one core. None derives it from `flops_per_s`.
    host_s
        Seconds of every iteration whatever its batch and cores.
    flops_per_s
        FLOPs a second at a speed of 1.
    stands_for
        Iterations of a longer training for each of this one: computing a gradient and what is sent
        in every iteration take as many times as long; timing batches and transferring the best
        weights do not.
    evaluate_every
        Iterations from one evaluation on the test samples to the next; at the end all are
        evaluated.
    patience_s
        As for `workbench.decentralised.GossipSetup`.

    Raises
    ------
    ValueError
        As for `workbench.training.Setup`; numbers out of range; both or neither of environment and
        cluster.
    """

    environment: str | Environment | None = None
    cluster: Cluster | None = None
    seconds: float | None = field(default=None, metadata=optional(ABOVE_ZERO))
    iterations: int | None = field(default=None, metadata=optional(at_least(1)))
    local_batch: int = field(default=32, metadata=at_least(1))
    sgd: Sgd = field(default_factory=lambda: Sgd(0.1), kw_only=True)
    first_weights: str = "own"
    sample_s: float | None = field(default=None, metadata=optional(ABOVE_ZERO))
    host_s: float = field(default=0.0, metadata=NOT_NEGATIVE)
    flops_per_s: float = field(default=1e10, metadata=ABOVE_ZERO)
    stands_for: float = field(default=1.0, metadata=ABOVE_ZERO)
    evaluate_every: int = field(default=20, kw_only=True, metadata=at_least(1))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("first_weights", self.first_weights, FIRST)
        if self.patience_s is not None:
            fastest = max(max(node.speed_over_time.values) for node in self.network.nodes)
            batch_s = self.host_s + self.local_batch * self.seconds_per_sample[0] / fastest
            self._check_patience(batch_s * self.stands_for)
        if self.local_batch > (available := len(self.dataset.y_train)):
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
        if isinstance(where, str):
            where = choose("environment", where, ENVIRONMENTS)
        if not (where is None or isinstance(where, Environment)):
            raise UserError(
                f"environment is {where!r}; give the name of one of ENVIRONMENTS, an Environment, "
                "or a Cluster as cluster="
            )
        cluster = check_cluster(self.cluster) if where is None else where.cluster()
        for pair in permutations(range(len(cluster)), 2):
            cluster.link(*pair)
        return cluster

    @property
    def seconds_per_sample(self) -> tuple[float, ...]:
        """Seconds to learn from a sample at speed 1, by worker."""
        seconds = self.sample_s
        if seconds is None:
            seconds = sample_seconds(self.profile, self.flops_per_s)
        return (seconds,) * self.nodes

    def last_iteration(self, growth: Growth) -> float:
        """The last iteration of every worker; infinite if seconds end the run."""
        if self.iterations is not None:
            return self.iterations
        if self.seconds is not None:
            return math.inf
        state, iterations = GlobalBatch(self.local_batch * self.nodes), 0
        while state.epoch < self.epochs:
            state, iterations = step(state, growth, self.samples), iterations + 1
        return iterations

    def programs(self, how: str | System | MakeExchange = "dlion") -> WorkerPrograms:
        """Programs of the workers; `how` as `system` of `train`, with its errors."""
        how = system_or_exchange(how)
        batching = how.batching if isinstance(how, System) else None
        if isinstance(how, MakeExchange):
            check_exchange(how, self.network)
        elif self.sgd != Sgd(self.sgd.learning_rate):
            raise UserError(
                f"{how.title} applies peers' gradients as they arrive, by their learning rate "
                f"alone; give sgd=Sgd({self.sgd.learning_rate:g}) without momentum or decay"
            )
        if batching is not None and max(batching.sizes) > self.samples:
            raise UserError(
                f"batching times batches of {max(batching.sizes)} samples, but the workers "
                f"hold {self.samples}; give Batching(sizes=...) with smaller ones"
            )
        models = self._first_models()
        tensors = models[0].layout.tensor_slices.values()
        growth = CONSTANT if batching is None else batching.growth
        job = self.job(
            batch_size=self.local_batch,
            host_s=self.host_s,
            iteration_factor=self.stands_for,
            variables=tuple(tensor for tensor in tensors if tensor.stop > tensor.start),
            last_iteration=self.last_iteration(growth),
        )
        programs = [WorkerProgram(job, how, learner) for learner in self.learners(models)]
        recorder = WorkerRecorder(self.network.names, self.objective)
        return WorkerPrograms(self, self.network, [*programs], job, models, recorder)

    def _first_models(self) -> list[FlatModel]:
        flat = self.flat()
        if self.first_weights == "shared":
            return [flat] * self.nodes
        models = [flat.replica() for _ in range(self.nodes)]
        for node, model in enumerate(models):
            seed = derive(self.seed, FIRST_WEIGHTS, node)
            model.adopt(make_model(self.model, self.dataset, seed, self.outputs))
        return models


@dataclass(frozen=True, eq=False)
class Trained(training.Trained[NDArray[np.float32]]):
    """Results of a training.

    Attributes
    ----------
    epochs
        A row for each worker and epoch, if it was there at the end: ``epoch``, ``node``, its
        ``name``, ``at_s``, ``loss`` (mean over its samples), metrics, such as ``top1`` (of its
        newest evaluation by then; null before any), ``samples`` that it learnt from, ``restarts``.
    weights
        Weights of all workers at the end, (workers, parameters).
    evaluations
        A row for each: ``at_s, node, name, iteration``, the metrics and ``loss``, on the test
        samples.
    iterations
        A row for each of a worker: ``at_s, node, name, iteration, samples`` (the local batch),
        ``global_batch, loss, restarts``.
    transfers
        Messages that arrived: ``at_s``, ``source`` and ``target`` with ``source_name`` and
        ``target_name``, ``topic`` (``gradient``, ``weights``, ``model``), ``iteration`` of the
        sender, ``values`` and ``bytes``.
    """

    evaluations: pl.DataFrame
    iterations: pl.DataFrame
    transfers: pl.DataFrame


@dataclass(frozen=True, eq=False)
class WorkerPrograms(training.Programs[Trained]):
    """Programs of the workers with these first `models`, and rows of what they record."""

    setup: Setup
    job: Job
    models: Sequence[FlatModel]
    recorder: WorkerRecorder

    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take what a worker records."""
        self.recorder.observe(at_s, node, value)

    @property
    def until_s(self) -> float | None:
        """Virtual seconds of the run, if the setup limits them."""
        return self.setup.seconds

    def standing(self) -> Standing:
        """Progress in iterations of all workers, or in the seconds that are over."""
        rows, setup = self.recorder.iterations, self.setup
        losses, now_s = [], 0.0
        if rows:
            now_s, _, name, iteration, *_, loss, _ = rows[-1]
            losses = [f"{name}'s loss {loss:.3f} in iteration {iteration}"]
        if math.isfinite(self.job.last_iteration):
            planned = int(self.job.last_iteration) * setup.nodes
            percent = 100 * len(rows) // planned
        else:
            assert setup.seconds is not None
            planned, percent = 0, int(100 * now_s / setup.seconds)
        what = "iterations of all workers"
        return Standing(len(rows), planned, min(percent, 100), tuple(losses), what)

    def failed(self, error: SimulationError) -> TrainingError:
        """Error of a failed run; where all wait because of `synch_training`, it says so."""
        models, names = error.run.learnt, self.cluster.names
        nodes = [node for node in models if models[node].held_back]
        if isinstance(error, DeadlockError) and nodes:
            who = "all workers wait"
            if len(nodes) < len(names):
                who = f"{len(nodes)} of {len(names)} workers wait, such as {names[min(nodes)]}"
            error = SimulationError(f"{who}, and nothing is on its way; {MUST}", error.run)
        return super().failed(error)

    def trained(self, run: Run) -> Trained:
        """Results of a run, with an evaluation of every worker at its end."""
        workers = [run.learnt.get(node) or self._first(node) for node in range(len(self.cluster))]
        if run.ended in ("done", "stopped"):
            self._evaluate(run.end_s, workers)
        weights = np.stack([worker.model.parameters.numpy() for worker in workers])
        evaluations, iterations, transfers = self.recorder.frames()
        setup = self.setup
        metrics = metrics_of_each(setup.objective)
        epochs = _epochs(iterations, evaluations, setup.samples, metrics)
        return Trained(epochs, weights, run, evaluations, iterations, transfers)

    def _first(self, node: int) -> WorkerModel:
        flat = self.models[node]
        return WorkerModel(Model(flat.parameters, get_buffers(flat.module)), held_back=False)

    def _evaluate(self, at_s: float, workers: Sequence[WorkerModel]) -> None:
        """Evaluate every worker at the end of a run."""
        flat, data, recorder = self.models[0].replica(), self.setup.dataset, self.recorder
        for node, worker in enumerate(workers):
            flat.parameters.copy_(worker.model.parameters)
            set_buffers(flat.module, worker.model.buffers)
            evaluation = evaluate(
                flat.module, data.x_test, data.y_test, objective=self.setup.objective
            )
            recorder.evaluate(at_s, node, recorder.last_iteration(node), evaluation)


def _epochs(
    iterations: pl.DataFrame, evaluations: pl.DataFrame, samples: int, metrics: Sequence[str]
) -> pl.DataFrame:
    """Rows of epochs, which are counted by the global batches: the same for all workers."""
    batches = iterations.group_by("iteration").agg(pl.col("global_batch").max()).sort("iteration")
    learnt = batches.select("iteration", after=pl.col("global_batch").cum_sum())
    rows = iterations.join(learnt, on="iteration", how="left", maintain_order="left").with_columns(
        epoch=(pl.col("after") - pl.col("global_batch")) // samples + 1
    )
    weighted = (pl.col("loss") * pl.col("samples")).sum() / pl.col("samples").sum()
    done = (
        rows.group_by("epoch", "node", "name", maintain_order=True)
        .agg(
            pl.col("at_s", "restarts", "after", "iteration").last(),
            loss=weighted,
            samples=pl.col("samples").sum(),
        )
        .filter(pl.col("after") >= pl.col("epoch") * samples)
    )
    newest = evaluations.select("node", "iteration", *metrics).sort("iteration")
    joined = done.sort("iteration").join_asof(
        newest, on="iteration", by="node", check_sortedness=False
    )
    return joined.sort("epoch", "at_s", "node").select(
        pl.col(name).cast(kind)
        for name, kind in schema(("node", "name", "samples", "restarts"), metrics).items()
    )


def system_or_exchange(how: str | System | MakeExchange) -> System | MakeExchange:
    """Return a system that exchanges gradients, or an exchange of models, by name or as it is."""
    if isinstance(how, str):
        named: dict[str, System | MakeExchange] = {**SYSTEMS, **EXCHANGES}
        return choose("system", how, named)
    if not isinstance(how, System | MakeExchange):
        raise TypeError(
            f"system is {how!r}; give the name of one of SYSTEMS or EXCHANGES, a System, or an "
            "exchange such as decentralised.DiLoCo()"
        )
    if isinstance(how, Gossip):
        raise UserError(
            "Gossip exchanges models at the end of an epoch, but workers go by iterations here; "
            "give it to decentralised.GossipSetup, or an exchange such as DiLoCo() or GoSgd(0.1)"
        )
    return how


def train(
    setup: Setup,
    system: str | System | MakeExchange = "dlion",
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained:
    """Train on every worker until the setup's end.

    Parameters
    ----------
    setup
        What to train, where, for how long.
    system
        Name in `SYSTEMS`, or a `System` of one's own; ``dataclasses.replace(SYSTEMS["dlion"],
        transfer=None)`` is DLion without a technique. Or an exchange of models, by its name in
        `workbench.decentralised.EXCHANGES` or as it is, such as ``DiLoCo(period=50)``; one that
        has exchanged nothing, since the training is shorter than its period, warns.
    faults, trace, progress, threads
        As for `workbench.decentralised.train`.

    Raises
    ------
    workbench.utils.checks.UnknownNameError
        No such system.
    ValueError
        Something may get lost, but `setup` waits for ever; an optimiser with momentum or decay for
        a system that exchanges gradients.
    TrainingError
        As for `training.run`.
    """
    check_kind("setup", setup, Setup, "a Setup, as in Setup('cipher', dataset, 'homo_a', ...)")
    how = system_or_exchange(system)
    trained = training.train(setup, how, RunOptions(faults, trace, progress, threads))
    done = trained.iterations["iteration"].to_list()
    if done and isinstance(how, MakeExchange) and (message := how.too_short(max(done))):
        warnings.warn(message, stacklevel=2)
    return trained
