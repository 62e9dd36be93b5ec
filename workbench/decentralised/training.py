"""Trains a model on nodes that exchange it with their peers: true learning, virtual time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.clusters import Cluster
from workbench.clusters.cluster import check_cluster
from workbench.decentralised.learner import PeerLearner, learners_of
from workbench.decentralised.model_exchange.epochwise import Epochwise
from workbench.decentralised.model_exchange.gosgd import GoSgd, Share
from workbench.decentralised.node import Node, PeerJob
from workbench.decentralised.recorder import PeerRecorder
from workbench.decentralised.selecting import Epochs, EverySample, Selecting, view_of
from workbench.decentralised.setup import Gossip, sample_seconds
from workbench.runtime import Fault, Run, Synchronized
from workbench.training import RunOptions, Standing, Trained, TrainingError
from workbench.utils.checks import ABOVE_ZERO, UserError, is_number, listed

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.runtime import Context
    from workbench.runtime.progress import Progress

__all__ = ["GossipSetup", "Trained", "TrainingError", "train"]


@dataclass(frozen=True, eq=False)
class GossipSetup(Gossip):
    """Who learns what from which samples, and how models are exchanged.

    Attributes
    ----------
    model, dataset, objective, outputs, epochs, sgd, seed, parallel
        As for `workbench.training.Setup`. Only parameters are exchanged, no velocities.
    shards, patience_s, mixing, probability, batch_size, evaluate_every
        As for `PeerSetup` and `Gossip`.
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
        samples that are not there; both or neither of mixing and probability.
    workbench.clusters.MissingLinkError
        No link leads to a node from one of whose model it takes a part.
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

    @property
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

    def programs(self, how: Selecting[Any] | None = None) -> GossipPrograms:
        """Programs of the nodes, and what they learn with; `how` and errors as for `train`."""
        return gossip_programs(self, how)

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
class GossipProgram:
    """The program of a node, its model and its weight in GoSGD.

    It returns what its exchange does at the end: see `Epochwise` and `GoSgd`.
    """

    job: PeerJob
    selecting: Selecting[Any]
    state: Synchronized[PeerLearner]
    share: Share

    async def __call__(self, context: Context) -> Any:
        """Learn until all epochs are over."""
        setup, at, job = self.job.setup, context.node, self.job
        assert isinstance(setup, Gossip)
        if (mixing := setup.mixing) is not None:
            node = Node(job, self.state, context, mixing.targets(at), mixing.sources(at))
            epochs = Epochs(node, self.selecting)
            return await node.run(epochs, Epochwise(node, epochs, mixing))
        assert setup.probability is not None
        sources = [source for source, target in setup.network.links if target == at]
        node = Node(job, self.state, context, context.peers, sources)
        epochs = Epochs(node, self.selecting)
        return await node.run(epochs, GoSgd(node, epochs, setup.probability, self.share))

    def learnt(self) -> Tensor:
        """The parameters."""
        return self.state.value.flat.parameters

    def warm_up(self) -> None:
        """Choose the first batches, and compute the gradient of one."""
        learner = self.state.value
        first = view_of(self.job, learner, now_s=0.0, last=None, reports={})
        _, batches, _ = self.selecting.step(self.selecting.begin(learner.node), 1, first)
        if batches:
            learner.try_out(batches[0])


@dataclass(frozen=True, eq=False)
class GossipPrograms(training.Programs["Trained[tuple[Tensor, ...]]"]):
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
    setup: Gossip,
    selecting: Selecting[Any] | None = None,
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
    if not isinstance(setup, Gossip):
        raise TypeError(f"setup is {setup!r}; give a GossipSetup, as in GossipSetup('lenet5', ...)")
    return training.train(setup, selecting, RunOptions(faults, trace, progress, threads))


def gossip_programs(setup: Gossip, selecting: Selecting[Any] | None) -> GossipPrograms:
    """Programs of the nodes, and what they learn with."""
    if selecting is not None and not (hasattr(selecting, "fitted") and hasattr(selecting, "step")):
        raise TypeError(f"selecting is {selecting!r}; give a decentralised.Selecting, or None")
    chosen = (EverySample(setup.seed) if selecting is None else selecting).fitted(setup)
    flat = setup.flat()
    job = PeerJob(
        setup=setup,
        batch_size=setup.batch_size,
        sample_s=setup.seconds_per_sample,
        tensor_bytes=tuple(
            float(prod(shape) * flat.layout.item_bytes)
            for layer in flat.layout.tensors
            for _, shape in layer
        ),
    )
    programs = [
        GossipProgram(job, chosen, learner, Share(1 / setup.nodes))
        for learner in learners_of(setup, [flat] * setup.nodes)
    ]
    recorder = PeerRecorder(setup.network.names, setup.objective)
    return GossipPrograms(setup, setup.network, [*programs], flat.parameters, recorder)
