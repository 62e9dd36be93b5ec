"""A worker among its peers: what it knows of them, and what it sends.

Deviation: failures, which the paper leaves open. With `patience_s` nobody waits for what is lost,
and a peer that is silent for so long counts as gone until it is heard again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.decentralised import node
from workbench.dlion.algorithms.synchronisation import Progress
from workbench.runtime import Message
from workbench.training.batches import Draw

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Part
    from workbench.decentralised.learner import PeerLearner
    from workbench.dlion.algorithms.system import System
    from workbench.runtime import Context, Synchronized


@dataclass(frozen=True, eq=False, kw_only=True)
class WorkerJob(node.PeerJob):
    """A training job: what all workers of a run know."""

    system: System
    variables: tuple[slice, ...]  # of the flat vector
    last_iteration: float  # infinite if seconds end the run


class Worker(node.Node):
    """A worker from its start, or restart, to its crash or end.

    Attributes
    ----------
    progress
        Its own and its peers'.
    samples, global_batch
        In its present batch, and in all workers' together.
    inbox
        Peers' gradients that are not added yet, each with its factor.
    held_back
        Whether `synch_training` does not allow its next iteration yet.
    """

    job: WorkerJob

    def __init__(self, job: WorkerJob, state: Synchronized[PeerLearner], context: Context) -> None:
        super().__init__(job, state, context, context.peers, context.peers)
        setup = job.setup
        self.progress = Progress(newest=dict.fromkeys(context.peers, 0))
        self.draw = Draw(setup.held[self.node], setup.seed, self.node, context.restarts)
        self.samples, self.global_batch = job.batch_size, job.batch_size * setup.nodes
        self.inbox: list[tuple[Part, float]] = []
        self.held_back = False

    @property
    def there(self) -> tuple[int, ...]:
        """Peers that are not gone, ascending."""
        return tuple(self.progress.newest)

    @property
    def up_to_date(self) -> PeerLearner:
        """Its model and optimiser, with all gradients that have arrived."""
        learner = self.learner
        learner.add(self.take_inbox())
        return learner

    def take_inbox(self) -> tuple[tuple[Part, float], ...]:
        """Empty the inbox."""
        taken = tuple(self.inbox)
        self.inbox.clear()
        return taken

    def look_around(self) -> None:
        """Find out which peers are gone, and which are back."""
        if self.job.setup.patience_s is not None:
            newest, now = self.progress.newest, self.progress.iteration
            self.progress.newest = {
                peer: max(newest.get(peer, now), self.heartbeat.newest(peer, "iteration"))
                for peer in self.context.peers
                if self.heartbeat.left_s(peer)
            }

    def heard(self, message: Message, iteration: int, values: int) -> None:
        """Note what a peer has sent in one of its iterations."""
        newest = self.progress.newest
        if message.sender in newest:
            newest[message.sender] = max(iteration, newest[message.sender])
        super().heard(message, iteration, values)
