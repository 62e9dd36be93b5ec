"""Learning by epochs: a `Selector` chooses the batches of each."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.decentralised.coordinator import Coordinated, Coordination
from workbench.decentralised.recorder import EpochEnd
from workbench.decentralised.selecting import EverySample, LastEpoch, View, view_of

if TYPE_CHECKING:
    from workbench.decentralised.exchange import Exchange, Step
    from workbench.decentralised.selecting import Selector
    from workbench.decentralised.setup import EpochSetup
    from workbench.decentralised.worker import Worker


class Epochs:
    """A source of batches by epochs, chosen by a `Selector`."""

    def __init__(self, worker: Worker, setup: EpochSetup, selector: Selector[Any]) -> None:
        self._worker, self._selector, self._setup = worker, selector, setup
        self._state = selector.begin(worker.node)
        self._coordination = (
            Coordination(worker, selector) if isinstance(selector, Coordinated) else None
        )
        self._last: LastEpoch | None = None
        self._epoch, self._recorded = 0, 0  # the present epoch, from 1; the last that is over
        self._left: list[NDArray[np.int64]] = []  # batches of the epoch, the next at the end
        self._began_s, self._samples = 0.0, 0

    @property
    def over(self) -> bool:
        """Whether all epochs are over."""
        return self._epoch >= self._setup.epochs and not self._left

    @property
    def label(self) -> str:
        """The epoch."""
        return str(self._epoch)

    @property
    def epoch_over(self) -> bool:
        """Whether no batch is left."""
        return not self._left

    def start(self) -> None:
        """Listen to reports or decisions, where a coordinator decides."""
        if self._coordination is not None:
            self._coordination.start()

    async def next(self) -> NDArray[np.int64] | None:
        """The next batch; at the beginning of an epoch, choose its batches."""
        if not self._left:
            await self._choose()
            if not self._left:
                return None
        return np.array(self._left.pop())  # a copy, since work may read it later

    async def _choose(self) -> None:
        self._epoch, context, decision = self._epoch + 1, self._worker.context, None
        if self._coordination is not None:
            self._state, report = self._coordination.report(self._state, self._view())
            decision = await self._coordination.decision(self._epoch, report)
        choose = partial(self._selector.step, self._state, self._epoch, self._view(decision))
        lane = "" if isinstance(self._selector, EverySample) else "select"
        self._state, batches, _ = await context.compute(
            choose, cost_s=itemgetter(2), lane=lane, label=self.label
        )
        self._began_s, self._samples = context.now_s(), 0
        self._left = list(batches)[::-1]
        if not self._left:
            self._last = LastEpoch(0, self._began_s, self._began_s)

    def _view(self, decision: Any = None) -> View:
        worker = self._worker
        now_s = worker.context.now_s()
        return view_of(self._setup, worker.learner, now_s, last=self._last, decision=decision)

    async def after_step(self, step: Step, samples: int) -> None:
        """Count a batch."""
        self._samples += samples
        if not self._left:
            now_s = self._worker.context.now_s()
            self._last = LastEpoch(self._samples, self._began_s, now_s)

    async def after_epoch(self, exchange: Exchange) -> None:
        """Exchange, and record the epoch."""
        self._epoch = await exchange.after_epoch(self._epoch)
        await self._record()

    def state(self) -> tuple[int, Any]:
        """The last epoch that is over, and a coordinator's newest decision."""
        newest = None if self._coordination is None else self._coordination.newest
        return self._recorded, newest

    async def resume(self, state: tuple[int, Any] | None) -> None:
        """Go on with a peer's epoch; if the peer has finished, record the last epoch."""
        if state is None:
            return
        self._epoch = self._recorded = state[0]
        if self._coordination is not None:
            self._coordination.newest = state[1]
        if self.over:
            await self._record()

    async def _record(self) -> None:
        """Record the epoch's end."""
        worker = self._worker
        ended_s, self._recorded = worker.context.now_s(), self._epoch
        evaluated = worker.job.evaluates(self._epoch, self._setup.epochs)
        evaluation = await worker.evaluate() if evaluated else None
        learner = worker.learner
        samples, loss = learner.take_loss()
        model, restarts = learner.flat.parameters, worker.context.restarts
        end = EpochEnd(self._epoch, ended_s, samples, loss, model, restarts, evaluation)
        worker.context.record(end)
