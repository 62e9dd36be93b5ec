"""Exchanges between workers: one protocol for models and gradients, after steps and epochs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import permutations
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from workbench.utils.checks import check_fields

if TYPE_CHECKING:
    from workbench.clusters import Cluster
    from workbench.decentralised.learner import Updates
    from workbench.decentralised.worker import Worker


class Step(NamedTuple):
    """A step of a worker: its gradient is computed."""

    iteration: int  # from 1
    loss: float  # mean over the batch, before the step
    seconds: float  # to compute the gradient, waiting for a core included


class Exchange:
    """A worker's part in an exchange; the base class exchanges nothing."""

    takes_step: ClassVar[bool] = False
    """Whether `after_step` takes the step of the gradient; if not, the worker does before it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    async def begin(self) -> None:
        """Listen to the others."""

    def before_step(self) -> Updates:
        """Bring the model up to date; return updates to add to it, each with its factor."""
        return ()

    async def after_step(self, step: Step) -> None:
        """Exchange what is due after a step."""

    async def after_epoch(self, epoch: int) -> int:
        """Exchange what is due after an epoch; return the epoch that the worker has reached.

        The epoch is a later one where the others have gone on without the worker.
        """
        return epoch

    async def drain(self) -> Any:
        """Serve the others until they need nothing more; return the program's result.

        By default until all have finished or are gone; the result is the last iteration.
        """
        await self.worker.until_all_are_done()
        return self.worker.progress.iteration

    def state(self) -> Any:
        """Return what a worker that rejoins needs beside the model."""
        return None

    def resume(self, state: Any) -> None:
        """Go on after a restart with a peer's `state`; None where no peer has answered."""


class MakeExchange(ABC):
    """Options of an exchange, which make every worker's part in it."""

    in_lockstep: ClassVar[bool] = True
    """Whether workers wait for each other's steps, so that all must take equally many."""

    period: int = 1
    """Steps from one exchange to the next."""

    def __post_init__(self) -> None:
        check_fields(self)  # type: ignore[arg-type]  # of the dataclasses that derive from it

    @abstractmethod
    def __call__(self, worker: Worker) -> Exchange:
        """Make a worker's part."""

    def too_short(self, steps: int) -> str:
        """Warning about a training of fewer steps than a period; empty if it is long enough."""
        if steps >= self.period:
            return ""
        name = type(self).__name__
        return (
            f"{name} exchanges models every {self.period} steps, so nothing at all in {steps}; "
            f"train for more, or give a period of at most {steps}, as in {name}(period={steps})"
        )

    def check(self, cluster: Cluster) -> None:
        """Refuse a cluster on which it cannot run; by default, links must join all nodes."""
        for pair in permutations(range(len(cluster)), 2):
            cluster.link(*pair)
