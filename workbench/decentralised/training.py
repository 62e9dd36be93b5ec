"""Training on nodes that exchange models with their peers: true learning, virtual time."""

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
from workbench.decentralised.job import Job
from workbench.decentralised.learner import PeerLearner
from workbench.decentralised.loop import run
from workbench.decentralised.recorder import EpochEnd, EpochRecorder
from workbench.decentralised.selecting import EverySample, MakeSelector, Selector, view_of
from workbench.decentralised.setup import EpochSetup, sample_seconds
from workbench.decentralised.worker import Worker
from workbench.runtime import Fault, Run, Synchronized
from workbench.training import RunOptions, Standing, Trained, TrainingError
from workbench.utils.checks import ABOVE_ZERO, UserError, check_kind, is_number, listed

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.exchange import Exchange
    from workbench.runtime import Context
    from workbench.runtime.progress import Progress

__all__ = ["GossipSetup", "Trained", "TrainingError", "train"]


@dataclass(frozen=True, eq=False)
class GossipSetup(EpochSetup):
    """A training by epochs on nodes that exchange models with their peers.

    Attributes
    ----------
    model, dataset, objective, outputs, epochs, sgd, seed, parallel
        As for `workbench.training.Setup`. Only parameters are exchanged, no velocities.
    shards
        Indices of the training samples of each node; see `workbench.datasets.partition`. They may
        overlap. None deals equally many out to each at random.
    cluster
        A node for each shard, linked with its peers.
    exchange
        `Gossip`, `GoSgd`, `DiLoCo` and others, such as ``EXCHANGES["noloco"]``, or one's own
        `MakeExchange`. None is `Gossip` along all links of the cluster.
    batch_size
        Samples in each node's batch.
    evaluate_every
        Epochs from one evaluation on the test samples to the next; the last is always evaluated.
    patience_s
        Seconds of silence after which a peer counts as gone. Heartbeats come three times as often,
        behind what their link carries, so it must exceed one and a half times the transfer of a
        model (in NoLoCo, of two) on the slowest link; it is at least a thousandth of the shortest
        batch. None waits for ever: only for runs in which nothing gets lost.
    sample_s
        Seconds that learning from a sample takes at a node's speed of 1: for all, or for each
        node. None derives it from `flops_per_s`.
    flops_per_s
        FLOPs a second that a node sustains at a speed of 1.

    Raises
    ------
    ValueError
        As for `workbench.training.Setup`; numbers out of range; not a node for each shard, or a
        shard with indices beyond the samples; an exchange that does not fit the cluster, or whose
        period is longer than the training.
    workbench.clusters.MissingLinkError
        The exchange needs a link that the cluster lacks.
    """

    shards: Sequence[NDArray[np.int64]] | None = field()
    cluster: Cluster
    sample_s: float | Sequence[float] | None = None
    flops_per_s: float = field(default=1e10, metadata=ABOVE_ZERO)

    def __post_init__(self) -> None:
        check_cluster(self.cluster)
        super().__post_init__()
        if self.sample_s is not None:
            _by_node(self.sample_s, self.nodes)

    @property
    def network(self) -> Cluster:
        """The cluster."""
        return self.cluster

    @cached_property
    def seconds_per_sample(self) -> tuple[float, ...]:
        """Seconds to learn from a sample at speed 1, by node."""
        if self.sample_s is None:
            return (sample_seconds(self.profile, self.flops_per_s),) * self.nodes
        return _by_node(self.sample_s, self.nodes)

    def programs(self, how: MakeSelector | None = None) -> EpochPrograms:
        """Programs of the nodes; `how` selects their samples, as `selecting` of `train`."""
        return epoch_programs(self, how)


def _by_node(sample_s: Any, nodes: int) -> tuple[float, ...]:
    """Return seconds for each node, from one number for all or one for each."""
    instead = f"give one number for all nodes, or {nodes}, one for each"
    numbers = [sample_s] * nodes if is_number(sample_s) else listed("sample_s", sample_s, instead)
    if len(numbers) != nodes or not all(map(is_number, numbers)):
        raise UserError(f"sample_s is {sample_s!r}; {instead}")
    if not all(0 < number < math.inf for number in numbers):
        raise UserError(f"sample_s is {sample_s}; it must be above 0 and finite")
    return tuple(map(float, numbers))


@dataclass(eq=False)
class EpochProgram:
    """The program of a node and its model; it returns what `Exchange.drain` does."""

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
    recorder: EpochRecorder

    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take the end of a node's epoch."""
        if isinstance(value, EpochEnd):
            self.recorder.observe(node, value)

    def standing(self) -> Standing:
        """Progress in epochs of all nodes, with the loss of the latest."""
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
    selecting: MakeSelector | None = None,
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
        Model, data, cluster and exchange, such as a `GossipSetup`.
    selecting
        Chooses the samples of each node in each epoch; all by default.
    faults
        Faults of `workbench.runtime`, such as ``Crash("node3", 0.5)``. Those that lose something
        need `patience_s` in the setup.
    trace
        Whether to record what ran when, as ``trained.run.trace``.
    progress
        True to show epochs, virtual time and loss; or a function, as for `runtime.simulate`.
    threads
        Steps of different nodes that run at once, by default one on each core; the results have the
        same bits for any number. See ``parallel`` of the setup.

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
    instead = "a GossipSetup, as in GossipSetup('lenet5', ...)"
    check_kind("setup", setup, EpochSetup, instead)  # type: ignore[type-abstract]
    return training.train(setup, selecting, RunOptions(faults, trace, progress, threads))


def epoch_programs(setup: EpochSetup, selecting: MakeSelector | None) -> EpochPrograms:
    """Programs of the nodes, which learn from the samples that `selecting` chooses."""
    if isinstance(selecting, type) or not (selecting is None or hasattr(selecting, "fitted")):
        raise TypeError(f"selecting is {selecting!r}; give a decentralised.MakeSelector, or None")
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
    recorder = EpochRecorder(setup.network.names, setup.objective)
    return EpochPrograms(setup, setup.network, [*programs], flat.parameters, recorder)
