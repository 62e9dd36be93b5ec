"""What all kinds of exchange share: a node's epochs, and how one that restarts rejoins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workbench.decentralised.learner import Learner
from workbench.decentralised.recorder import Recorder
from workbench.decentralised.rejoining import fetch
from workbench.decentralised.selecting import Learnt, Selecting, View
from workbench.runtime import Message, Synchronized

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.setup import Gossip
    from workbench.runtime import Context

Reports = Mapping[int, tuple[int, Any]]
"""By node: the epoch behind which it was made, and the report."""


@dataclass(frozen=True, eq=False)
class Job:
    """A training job: what all nodes of a run know."""

    setup: Gossip
    selecting: Selecting[Any]
    learners: Sequence[Synchronized[Learner]]  # by node; their steps may run beside each other
    recorder: Recorder
    sample_s: Sequence[float]  # seconds per sample, by node
    tensor_bytes: tuple[float, ...]  # of a model on the links

    @cached_property
    def sources(self) -> list[list[int]]:
        """By node, those from which a link leads to it, ascending."""
        found: list[list[int]] = [[] for _ in self.learners]
        for source, target in self.setup.network.links:
            found[target].append(source)
        return found

    def message(self, sender: int, topic: str, payload: Any) -> Message:
        """A message of a model's size."""
        return Message(sender, topic, payload, sum(self.tensor_bytes), self.tensor_bytes)


class Checkpoint(NamedTuple):
    """What a node that rejoins starts from."""

    epoch: int  # the sender's; one more than the last when it has finished
    parameters: Tensor
    buffers: Mapping[str, Tensor]  # weigh nothing on the links, as in `workbench.training.buffers`
    reports: Reports
    alpha: float = 0.0  # half of the sender's weight, in GoSGD


class Participant:
    """A node from its start, or restart, to its crash or end."""

    def __init__(self, job: Job, context: Context) -> None:
        self.job, self.context, self.node = job, context, context.node
        if context.restarts:  # a crash loses what a node holds
            self.learner.begin(context.restarts)
        self.state = job.selecting.begin(self.node)
        self.reports: dict[int, tuple[int, Any]] = {}
        self.last: Learnt | None = None
        self.epoch = 0  # the present one, from 1

    @property
    def learner(self) -> Learner:
        """Its model and optimiser, once the pending step is done."""
        return self.job.learners[self.node].value

    def view(self) -> View:
        """What the node knows now."""
        setup = self.job.setup
        return View(
            node=self.node,
            now_s=self.context.now_s(),
            flat=self.learner.flat,
            setup=setup,
            shard=setup.held[self.node],
            batch_size=setup.batch_size,
            sample_s=self.job.sample_s[self.node],
            last=self.last,
            reports={node: report for node, (_, report) in sorted(self.reports.items())},
        )

    def report(self) -> bool:
        """Make the report on the epoch; whether there is one."""
        made = self.job.selecting.report(self.state, self.epoch, self.view())
        if made is not None:
            self.reports[self.node] = self.epoch, made
        return made is not None

    def hear(self, reports: Reports) -> None:
        """Keep the newer of the reports known here and of `reports`."""
        for node, (epoch, report) in reports.items():
            if node != self.node and epoch >= self.reports.get(node, (epoch,))[0]:
                self.reports[node] = epoch, report

    async def learn(
        self,
        epoch: int,
        before: Callable[[], None] | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        """Learn for an epoch; `before` and `after` are called around each step."""
        self.epoch, context = epoch, self.context
        selecting, sample_s = self.job.selecting, self.job.sample_s[self.node]
        self.state, batches, cost_s = selecting.step(self.state, epoch, self.view())
        if cost_s:
            await context.compute(_nothing, cost_s=cost_s, lane="select", label=str(epoch))
        began_s, samples = context.now_s(), 0
        own = self.job.learners[self.node]
        for batch in map(np.array, batches):  # a copy, since work may read it later
            if before is not None:
                before()
            work, cost_s = partial(Learner.learn, batch=batch), len(batch) * sample_s
            await context.compute(work, cost_s=cost_s, lane="learn", label=str(epoch), on=own)
            samples += len(batch)
            if after is not None:
                after()
        self.last = Learnt(samples, context.now_s() - began_s)

    async def note(self) -> None:
        """Note the epoch's end; evaluation takes no virtual time, and leaves no trace."""
        epoch, now_s, recorder = self.epoch, self.context.now_s(), self.job.recorder
        found = None
        if recorder.evaluates(epoch):
            own = self.job.learners[self.node]
            found = await self.context.compute(Learner.evaluate, cost_s=0.0, lane="", on=own)
        recorder.note(epoch, now_s, self.learner, self.context.restarts, found)

    def checkpoint(self, alpha: float = 0.0) -> Message:
        """What to send to a node that rejoins."""
        checkpoint = Checkpoint(
            self.epoch,
            self.learner.snapshot(),
            self.learner.buffers(),
            dict(self.reports),
            alpha,
        )
        return self.job.message(self.node, "checkpoint", checkpoint)

    async def rejoin(self, peers: Iterable[int]) -> Checkpoint | None:
        """Ask peers with links both ways for the model, one after the other, until one answers.

        A node that nobody answers begins anew.
        """
        setup = self.job.setup
        found = await fetch(self.context, setup.network, peers, setup.patience_s)
        if found is None:
            return None
        checkpoint: Checkpoint = found.payload
        self.learner.adopt(checkpoint.parameters, checkpoint.buffers)
        self.hear(checkpoint.reports)
        return checkpoint


def _nothing() -> None:
    return None
