"""Trains a model on nodes that exchange it with their peers: true learning, virtual time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.clusters import Cluster
from workbench.clusters.cluster import check_cluster
from workbench.decentralised.epochs import Epochs
from workbench.decentralised.learner import PeerLearner
from workbench.decentralised.loop import run
from workbench.decentralised.recorder import PeerRecorder
from workbench.decentralised.selecting import EverySample, Selecting, Selector, view_of
from workbench.decentralised.setup import EpochSetup, sample_seconds
from workbench.decentralised.worker import Job, Worker
from workbench.runtime import Fault, Run, Synchronized
from workbench.training import RunOptions, Standing, Trained, TrainingError
from workbench.utils.checks import ABOVE_ZERO, UserError, is_number, listed

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.exchange import Exchange
    from workbench.runtime import Context
    from workbench.runtime.progress import Progress

__all__ = ["GossipSetup", "Trained", "TrainingError", "train"]


@dataclass(frozen=True, eq=False)
class GossipSetup(EpochSetup):
    """Who learns what from which samples, and how models are exchanged.

    Attributes
    ----------
    model, dataset, objective, outputs, epochs, sgd, seed, parallel
        As for `workbench.training.Setup`. Only parameters are exchanged, no velocities.
    shards, patience_s, exchange, batch_size, evaluate_every
        As for `PeerSetup` and `EpochSetup`.
    cluster
        A node for each shard, linked with its peers.
    sample_s
        Seconds that learning from a sample takes at a node's speed of 1: for all, or for each
        node. None derives it from `flops_per_s`.
    flops_per_s, backward_over_forward
        What nodes sustain, all or each, and their time backward over forward.

    Raises
    ------
    ValueError
        What no training takes; numbers out of range; not a node for each shard, or a shard of
        samples that are not there; an exchange that does not fit the cluster.
    workbench.clusters.MissingLinkError
        The exchange needs a link that the cluster lacks.
    """

    shards: Sequence[NDArray[np.int64]] | None = field()
    cluster: Cluster
    sample_s: float | Sequence[float] | None = None
    flops_per_s: float | Sequence[float] = 1e10
    backward_over_forward: float = field(default=2.0, metadata=ABOVE_ZERO)

    def __post_init__(self) -> None:
        check_cluster(self.cluster)
        if self.sample_s is not None:
            self._each("sample_s")
        self._each("flops_per_s")
        super().__post_init__()

    @property
    def network(self) -> Cluster:
        """The cluster."""
        return self.cluster

    @cached_property
    def seconds_per_sample(self) -> tuple[float, ...]:
        """Seconds to learn from a sample at speed 1, by node."""
        if self.sample_s is not None:
            return self._each("sample_s")
        rates = self._each("flops_per_s")
        sample_s = {
            rate: sample_seconds(self.profile, rate, self.backward_over_forward)
            for rate in dict.fromkeys(rates)
        }
        return tuple(sample_s[rate] for rate in rates)

    def programs(self, how: Selecting | None = None) -> EpochPrograms:
        """Programs of the nodes, and what they learn with; `how` and errors as for `train`."""
        return epoch_programs(self, how)

    def _each(self, name: str) -> tuple[float, ...]:
        """A number for each node, of one for all or as many as nodes."""
        value, instead = getattr(self, name), "give one number for all nodes, or one for each"
        numbers = [value] * self.nodes if is_number(value) else listed(name, value, instead)
        if not all(map(is_number, numbers)):
            raise UserError(f"{name} is {value!r}; {instead}")
        if len(numbers) != self.nodes:
            raise UserError(
                f"{name} has {len(numbers)} numbers for {self.nodes} nodes; give one for all, or "
                "one for each"
            )
        if not all(0 < number < math.inf for number in numbers):
            raise UserError(f"{name} is {value}; it must be above 0 and finite")
        return tuple(map(float, numbers))


@dataclass(eq=False)
class EpochProgram:
    """The program of a node and its model; it returns what its exchange does at the end."""

    job: Job
    setup: EpochSetup
    selector: Selector[Any]
    state: Synchronized[PeerLearner]
    exchange: Exchange | None = None  # since the node (re)started

    async def __call__(self, context: Context) -> Any:
        """Learn until all epochs are over."""
        worker = Worker(self.job, self.state, context)
        assert self.setup.exchange is not None
        source = Epochs(worker, self.setup, self.selector)
        self.exchange = self.setup.exchange(worker)
        return await run(worker, source, self.exchange)

    def learnt(self) -> Tensor:
        """Return the parameters."""
        return self.state.value.flat.parameters

    def warm_up(self) -> None:
        """Choose the first batches, and compute the gradient of one."""
        learner = self.state.value
        state = self.selector.begin(learner.node)
        _, batches, _ = self.selector.step(state, 1, view_of(self.setup, learner))
        if batches:
            learner.try_out(batches[0])


@dataclass(frozen=True, eq=False)
class EpochPrograms(training.Programs["Trained[tuple[Tensor, ...]]"]):
    """Programs of the nodes, and rows of what they record; `first` are the first parameters."""

    first: Tensor
    recorder: PeerRecorder

    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take the end of a node's epoch."""
        self.recorder.observe(at_s, node, value)

    def standing(self) -> Standing:
        """By the epochs of all nodes; the loss is that of the last one noted."""
        planned = self.setup.epochs * len(self.cluster)
        done = len(self.recorder.rows)
        losses = []
        if done:
            epoch, _, name, _, loss, *_ = self.recorder.rows[-1]
            losses = [f"{name} in epoch {epoch}" + ("" if loss is None else f": loss {loss:.3f}")]
        percent = min(100, 100 * done // planned)  # a node that restarted may pass an epoch again
        return Standing(done, planned, percent, tuple(losses), "epochs of all nodes")

    def trained(self, run: Run) -> Trained[tuple[Tensor, ...]]:
        """The finished epochs, and the present weights."""
        weights = tuple(run.learnt.get(node, self.first) for node in range(len(self.cluster)))
        return Trained(self.recorder.frame(), weights, run)


def train(
    setup: EpochSetup,
    selecting: Selecting | None = None,
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained[tuple[Tensor, ...]]:
    """Train on every node until all have finished.

    Parameters
    ----------
    setup
        Who learns what, and how models are exchanged.
    selecting
        Chooses what each node learns from in each epoch; all samples by default.
    faults, trace, progress, threads
        As for `training.RunOptions`. Which steps run beside each other, with the same bits for any
        number of threads, says ``parallel`` of the setup.

    Returns
    -------
    Trained
        A row per epoch and node: ``epoch``, ``node``, its ``name``, ``at_s``, ``loss`` (mean over
        the epoch's samples, before each step), ``test_loss`` and metrics, such as ``top1`` (of the
        node's model after the exchange; null in epochs that are not evaluated),
        ``consensus_error`` (root of the mean squared distance from their mean of the models of all
        nodes that have a row of this epoch; null where one of them came when the first was as many
        epochs ahead as there are nodes), ``samples`` learnt from, and ``restarts`` of the node so
        far. Epochs in which a node was down, or that it skipped, have no row of it. Weights are
        each node's at the end. What Ctrl-C interrupts has the epochs that were done.

    Raises
    ------
    ValueError
        Something may get lost, but `setup` waits for ever; `selecting` does not fit `setup`.
    TrainingError
        As for `training.run`.
    """
    if not isinstance(setup, EpochSetup):
        raise TypeError(f"setup is {setup!r}; give a GossipSetup, as in GossipSetup('lenet5', ...)")
    return training.train(setup, selecting, RunOptions(faults, trace, progress, threads))


def epoch_programs(setup: EpochSetup, selecting: Selecting | None) -> EpochPrograms:
    """Programs of the nodes, and what they learn with."""
    if not (selecting is None or hasattr(selecting, "fitted")):
        raise TypeError(f"selecting is {selecting!r}; give a decentralised.Selecting, or None")
    chosen = (EverySample(setup.seed) if selecting is None else selecting).fitted(setup)
    flat = setup.flat()
    job = setup.job(
        batch_size=setup.batch_size,
        tensor_bytes=tuple(
            float(prod(shape) * flat.layout.item_bytes)
            for layer in flat.layout.tensors
            for _, shape in layer
        ),
    )
    programs = [
        EpochProgram(job, setup, chosen, learner)
        for learner in setup.learners([flat] * setup.nodes)
    ]
    recorder = PeerRecorder(setup.network.names, setup.objective)
    return EpochPrograms(setup, setup.network, [*programs], flat.parameters, recorder)
