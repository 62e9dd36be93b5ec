"""What a node learns from in an epoch: the seam for systems that choose their samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from workbench.decentralised.recorder import EpochEnd
from workbench.training.repeatable import SHUFFLE

if TYPE_CHECKING:
    from workbench.datasets import Dataset
    from workbench.decentralised.learner import PeerLearner
    from workbench.decentralised.node import Node, PeerJob
    from workbench.decentralised.setup import Gossip, PeerSetup
    from workbench.training import FlatModel

State = TypeVar("State")

Batches = Sequence[NDArray[np.int64]]
"""Indices into the training samples, a batch each; none for an epoch without learning."""


class Learnt(NamedTuple):
    """An epoch's learning: samples, and the virtual seconds from the first batch to the last."""

    samples: int
    seconds: float


@dataclass(frozen=True, eq=False)
class View:
    """What a node knows when it chooses."""

    node: int
    now_s: float  # virtual seconds since the run began
    flat: FlatModel  # its present model; to be read, not changed
    setup: PeerSetup
    shard: NDArray[np.int64]  # indices of its training samples
    batch_size: int
    sample_s: float  # that learning from a sample takes at speed 1
    last: Learnt | None  # the epoch before; None in the first since the node (re)started
    reports: Mapping[int, Any]  # newest of each node that it has heard of, itself included

    @property
    def dataset(self) -> Dataset:
        """What `shard` indexes."""
        return self.setup.dataset


def view_of(
    job: PeerJob,
    learner: PeerLearner,
    now_s: float,
    last: Learnt | None,
    reports: Mapping[int, Any],
) -> View:
    """What a node of a job knows."""
    node = learner.node
    return View(
        node=node,
        now_s=now_s,
        flat=learner.flat,
        setup=job.setup,
        shard=job.setup.held[node],
        batch_size=job.batch_size,
        sample_s=job.sample_s[node],
        last=last,
        reports=reports,
    )


class Selecting(Protocol[State]):
    """Chooses what each node learns from, state in and state out.

    A node that restarts begins again with `begin`.
    """

    def fitted(self, setup: Gossip) -> Self:
        """What runs in a training: itself, or a copy with what it takes from the setup.

        Called before anything runs, so that it can refuse a setup.
        """

    def begin(self, node: int) -> State:
        """First state of a node."""

    def report(self, state: State, epoch: int, view: View) -> Any:
        """What others should know before the epoch that follows `epoch`; None for nothing.

        Asked before the first epoch, as of epoch 0, and after each. Reports travel with the models
        and are forwarded: with one exchange an epoch, those of peers are there when the next epoch
        begins, others one epoch later per hop. They are a few numbers, and cost no bytes.
        """

    def step(self, state: State, epoch: int, view: View) -> tuple[State, Batches, float]:
        """Next state, the batches of an epoch (from 1), and seconds at speed 1 that choosing took.

        The node is occupied for those seconds before it learns.
        """


@dataclass(frozen=True)
class EverySample:
    """All samples of the shard each epoch, shuffled by seed, node and epoch.

    The last batch holds what is left.
    """

    seed: int = 0

    def fitted(self, setup: Gossip) -> Self:
        """Fits any."""
        return self

    def begin(self, node: int) -> None:
        """No state."""

    def report(self, state: None, epoch: int, view: View) -> None:
        """No report."""

    def step(self, state: None, epoch: int, view: View) -> tuple[None, Batches, float]:
        """Shuffle, and deal into batches."""
        return None, shuffled(view.shard, self.seed, epoch, view), 0.0


def shuffled(points: NDArray[np.int64], seed: int, epoch: int, view: View) -> Batches:
    """Deal points into a node's batches of an epoch in random order; the last has what is left."""
    stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, epoch, view.node))
    order = np.random.default_rng(stream).permutation(points)
    return np.split(order, range(view.batch_size, len(order), view.batch_size))


Reports = Mapping[int, tuple[int, Any]]
"""By node: the epoch behind which it was made, and the report."""


class Epochs:
    """A source of epochs, whose batches a `Selecting` chooses."""

    def __init__(self, node: Node, selecting: Selecting[Any]) -> None:
        self._node, self._selecting, self._setup = node, selecting, node.job.setup
        self.state = selecting.begin(node.node)
        self.reports: dict[int, tuple[int, Any]] = {}
        self.last: Learnt | None = None
        self.epoch = 0  # the present one, from 1
        self._left: list[NDArray[np.int64]] = []  # the next one last
        self._began_s, self._samples = 0.0, 0

    @property
    def over(self) -> bool:
        """Whether all epochs are over."""
        return self.epoch >= self._setup.epochs and not self._left

    @property
    def label(self) -> str:
        """The epoch."""
        return str(self.epoch)

    @property
    def epoch_over(self) -> bool:
        """Whether no batch is left."""
        return not self._left

    async def next(self) -> NDArray[np.int64] | None:
        """The next batch; at the beginning of an epoch, choose its batches."""
        if not self._left:
            self.epoch, context = self.epoch + 1, self._node.context
            choose = partial(self._selecting.step, self.state, self.epoch, self.view())
            lane = "" if isinstance(self._selecting, EverySample) else "select"
            self.state, batches, _ = await context.compute(
                choose, cost_s=itemgetter(2), lane=lane, label=self.label
            )
            self._began_s, self._samples = context.now_s(), 0
            self._left = list(batches)[::-1]
            if not self._left:
                self.learnt(0)
                return None
        return np.array(self._left.pop())  # a copy, since work may read it later

    def learnt(self, samples: int) -> None:
        """Count a batch."""
        self._samples += samples
        if not self._left:
            self.last = Learnt(self._samples, self._node.context.now_s() - self._began_s)

    def view(self) -> View:
        """What the node knows now."""
        node = self._node
        reports = {node: report for node, (_, report) in sorted(self.reports.items())}
        return view_of(node.job, node.learner, node.context.now_s(), self.last, reports)

    def report(self) -> bool:
        """Make the report on the epoch; whether there is one."""
        made = self._selecting.report(self.state, self.epoch, self.view())
        if made is not None:
            self.reports[self._node.node] = self.epoch, made
        return made is not None

    def hear(self, reports: Reports) -> None:
        """Keep the newer of the reports known here and of `reports`."""
        for node, (epoch, report) in reports.items():
            if node != self._node.node and epoch >= self.reports.get(node, (epoch,))[0]:
                self.reports[node] = epoch, report

    def go_on(self, epoch: int, reports: Reports) -> None:
        """Join a peer in an epoch, with the reports that it has."""
        self.hear(reports)
        self.epoch = max(epoch, 1) - 1

    async def record_if_over(self) -> None:
        """Record the last epoch, if the peer that was joined has finished."""
        if self.over:
            self.epoch = self._setup.epochs
            await self.record()

    async def record(self) -> None:
        """Record the epoch's end."""
        node = self._node
        ended_s = node.context.now_s()
        evaluation = await node.evaluate() if node.job.evaluates(self.epoch) else None
        learner = node.learner
        samples, loss = learner.take_loss()
        node.context.record(
            EpochEnd(
                self.epoch,
                ended_s,
                samples,
                loss,
                learner.flat.parameters,
                node.context.restarts,
                evaluation,
            )
        )
