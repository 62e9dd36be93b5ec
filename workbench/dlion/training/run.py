"""Runs a training on workers in micro-clouds: true learning, virtual time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import training
from workbench.checks import check_kind
from workbench.decentralised.learner import Learner
from workbench.dlion.algorithms import SYSTEMS, System
from workbench.dlion.algorithms.global_batch import CONSTANT
from workbench.dlion.algorithms.synchronisation import MUST
from workbench.dlion.programs.job import Job, Recorder
from workbench.dlion.programs.program import program
from workbench.dlion.training.setup import Setup
from workbench.errors import UserError
from workbench.names import choose
from workbench.runtime import DeadlockError, Fault, Run, SimulationError, Synchronized
from workbench.training import Sgd, Standing, TrainingError
from workbench.training.draws import may_run_in_parallel
from workbench.training.models import make_model
from workbench.training.repeatable import FIRST_WEIGHTS, derive
from workbench.training.trained import DivergedError, schema

if TYPE_CHECKING:
    from workbench.runtime.progress import Progress

EPOCHS = schema(("node", "name", "samples", "restarts"))


@dataclass(frozen=True, eq=False)
class Trained(training.Trained[NDArray[np.float32]]):
    """Results of a training.

    Attributes
    ----------
    epochs
        A row for each worker and epoch, if it was there at the end: ``epoch``, ``node``, its
        ``name``, ``at_s``, ``loss`` (mean over its samples), ``top1`` (of its newest evaluation by
        then; null before any), ``samples`` that it learnt from, ``restarts``.
    weights
        Of all workers at the end, (workers, parameters).
    evaluations
        ``at_s, node, name, iteration, top1, loss`` on the test samples.
    iterations
        ``at_s, node, name, iteration, samples`` (the local batch), ``global_batch, loss,
        restarts``.
    transfers
        What arrived: ``at_s``, ``source`` and ``target`` with ``source_name`` and ``target_name``,
        ``topic`` (``gradient``, ``weights``, ``model``), ``iteration`` of the sender, ``values``
        and ``bytes``.
    """

    evaluations: pl.DataFrame
    iterations: pl.DataFrame
    transfers: pl.DataFrame


@dataclass(frozen=True, eq=False)
class Built(training.Built[Trained]):
    """A training before it starts.

    Attributes
    ----------
    states
        Each worker's model; computations of several may run beside each other.
    job
        What the programs share.
    """

    states: list[Synchronized[Learner]]
    job: Job

    def standing(self) -> Standing:
        """By the iterations of all workers, or by the seconds that are over."""
        rows, setup = self.job.recorder.iterations, self.job.setup
        losses = []
        if rows:
            _, _, name, iteration, *_, loss, _ = rows[-1]
            losses = [f"{name}'s loss {loss:.3f} in iteration {iteration}"]
        if math.isfinite(self.job.last_iteration):
            planned = int(self.job.last_iteration) * setup.workers
            percent = 100 * len(rows) // planned
        else:
            assert setup.seconds is not None
            planned, percent = 0, int(100 * (rows[-1][0] if rows else 0.0) / setup.seconds)
        return Standing(
            len(rows), planned, min(percent, 100), tuple(losses), "iterations of all workers"
        )

    def failed(self, error: SimulationError) -> TrainingError:
        """As of any training; where `synch_training` is why all wait, it says so."""
        nodes, names = self.job.held_back, self.cluster.names
        if isinstance(error, DeadlockError) and nodes:
            who = "all workers wait"
            if len(nodes) < len(names):
                who = f"{len(nodes)} of {len(names)} workers wait, such as {names[min(nodes)]}"
            error = SimulationError(f"{who}, and nothing is on its way; {MUST}", error.run)
        return super().failed(error)

    def trained(self, run: Run) -> Trained:
        """What was done, with an evaluation of every worker at the end."""
        learners, job = [state.value for state in self.states], self.job
        for node, learner in enumerate(learners):
            learner.add(job.inboxes[node])
            job.inboxes[node].clear()
        if run.ended in ("done", "stopped"):
            try:
                job.recorder.close(run.end_s, learners)
            except DivergedError as error:
                diverged = SimulationError(str(error), replace(run, ended="failed"))
                diverged.__cause__ = error
                raise self.failed(diverged) from error
        weights = np.stack([learner.flat.parameters.numpy() for learner in learners])
        evaluations, iterations, transfers = job.recorder.frames()
        epochs = _epochs(iterations, evaluations, self.job.setup.samples)
        return Trained(epochs, weights, run, evaluations, iterations, transfers)


def _epochs(iterations: pl.DataFrame, evaluations: pl.DataFrame, samples: int) -> pl.DataFrame:
    """Epochs by the samples of the global batches, which are the same for all workers."""
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
    newest = evaluations.select("node", "iteration", "top1").sort("iteration")
    joined = done.sort("iteration").join_asof(
        newest, on="iteration", by="node", check_sortedness=False
    )
    return joined.sort("epoch", "at_s", "node").select(
        pl.col(name).cast(kind) for name, kind in EPOCHS.items()
    )


def train(
    setup: Setup,
    system: str | System = "dlion",
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
        transfer=None)`` is DLion without a technique.
    faults, trace, threads
        As for `workbench.runtime.simulate`. Faults that lose something need `patience_s`.
    progress
        True to show iterations, virtual time and loss; or a function, as for `simulate`.

    Raises
    ------
    workbench.names.UnknownNameError
        No such system.
    ValueError
        Something may get lost, but `setup` waits for ever; an optimiser with momentum or decay for
        a system that exchanges gradients.
    TrainingError
        The loss is not finite any more, a program failed, or all workers crashed for good; the
        error's `trained` has what was done.
    """
    check_kind("setup", setup, Setup, "a Setup, as in Setup('cipher', dataset, 'homo_a', ...)")
    if setup.patience_s is None and setup.workers > 1:
        faults = training.check_losing_nothing(
            faults, "give patience_s=..., the seconds after which a silent peer counts as gone"
        )
    with training.fixed_threads():
        built = build(setup, system)
    ended = training.run(
        built,
        faults=faults,
        trace=trace,
        progress=progress,
        threads=threads,
        until_s=setup.seconds,
    )
    if ended.run.ended == "done" and not ended.run.results:
        raise built.failed(
            SimulationError(
                "nobody is left: all workers crashed and stayed down; give one fewer Crash, or a "
                "Restart",
                ended.run,
            )
        )
    return ended


def build(setup: Setup, system: str | System = "dlion") -> Built:
    """Make the programs of a run and what they learn with; errors as for `train`."""
    check_kind("setup", setup, Setup, "a Setup, as in Setup('cipher', dataset, 'homo_a', ...)")
    chosen = choose("system", system, SYSTEMS) if isinstance(system, str) else system
    check_kind("system", chosen, System, "the name of one of SYSTEMS, or a System")
    if chosen.exchange_models is None and setup.sgd != Sgd(setup.sgd.learning_rate):
        raise UserError(
            f"{chosen.title} applies peers' gradients as they arrive, by their learning rate "
            f"alone; give sgd=Sgd({setup.sgd.learning_rate:g}) without momentum or decay"
        )
    if chosen.batching is not None and max(chosen.batching.sizes) > setup.samples:
        raise UserError(
            f"batching times batches of {max(chosen.batching.sizes)} samples, but the workers hold "
            f"{setup.samples}; give Batching(sizes=...) with smaller ones"
        )
    data = setup.dataset
    flat = training.flatten(setup.made(), data.input_shape)
    parallel = may_run_in_parallel(setup, flat)
    learners = []
    for node, name in enumerate(setup.network.names):
        replica = flat.replica()
        if setup.first_weights == "own":
            drawn = make_model(setup.model, data, derive(setup.seed, FIRST_WEIGHTS, node))
            replica.adopt(drawn)
        own = Learner(
            node, setup.seed, replica, replica.parameters.clone(), data, setup.sgd, name, parallel
        )
        learners.append(Synchronized(own, parallel=parallel))
    growth = CONSTANT if chosen.batching is None else chosen.batching.growth
    job = Job(
        setup=setup,
        system=chosen,
        learners=learners,
        recorder=Recorder(setup.network.names),
        sample_s=setup.seconds_per_sample,
        variables=tuple(one for one in flat.layout.tensor_slices.values() if one.stop > one.start),
        last_iteration=setup.last_iteration(growth),
        inboxes=[[] for _ in learners],
    )
    return Built(setup, setup.network, [program(job)] * setup.workers, learners, job)
