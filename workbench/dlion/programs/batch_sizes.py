"""A worker's batch sizes over a training, on which all workers agree (Sec. 3.2).

The global batch is a function of the iteration, so that nobody needs to be asked. Power is measured
in the same iterations by all; each waits there for what the others have measured. A worker that is
not heard counts with its power of before; one that was never heard, with the least of all.
"""

from __future__ import annotations

from collections import defaultdict
from operator import methodcaller
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from workbench.dlion.algorithms.global_batch import CONSTANT, GlobalBatch, step
from workbench.dlion.algorithms.local_batch import own_batch_size, relative_power
from workbench.dlion.programs.recorder import Evaluated, Iteration
from workbench.training.batches import Draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from workbench.decentralised.exchange import Exchange, Step
    from workbench.decentralised.learner import PeerLearner
    from workbench.decentralised.worker import Worker
    from workbench.dlion.algorithms.system import Batching
    from workbench.runtime import Message


class State(NamedTuple):
    """State of the controllers, by which the sizes of the next iteration are set."""

    controller: GlobalBatch
    power: dict[int, float]  # newest of all that were heard
    timed_in: int = 0  # iteration of the newest measurement
    timed_for: int = 0  # global batch in it


class BatchSizes:
    """A source of batches from a worker's shard, of the sizes that the controllers set.

    `samples` are in its present batch, `global_batch` in those of all workers together.
    """

    epoch_over = False

    def __init__(self, worker: Worker, batching: Batching | None = None) -> None:
        self._worker, self._batching, job = worker, batching, worker.job
        self._growth = CONSTANT if batching is None else batching.growth
        self._data_samples = job.epoch_samples
        self._heard: defaultdict[int, dict[int, float]] = defaultdict(dict)
        shard, restarts = job.shards[worker.node], worker.context.restarts
        self._draw = Draw(shard, job.seed, worker.node, restarts)
        self.samples, self.global_batch = job.batch_size, job.batch_size * worker.nodes
        self._state = State(GlobalBatch(self.global_batch), {})

    def start(self) -> None:
        """Listen to the others."""
        if self._batching is not None:
            self._worker.on("power", self._hear)

    @property
    def over(self) -> bool:
        """Whether the last iteration is done."""
        return self._worker.progress.iteration >= self._worker.job.last_iteration

    @property
    def label(self) -> str:
        """The iteration."""
        return str(self._worker.progress.iteration + 1)

    async def next(self) -> NDArray[np.int64]:
        """Draw a batch of the size that the workers agree on."""
        self._worker.update_alive()
        self.samples, self.global_batch = await self._sizes()
        return self._draw.take(self.samples)

    async def _sizes(self) -> tuple[int, int]:
        """Sizes of the worker's next batch, and of the global one."""
        worker, batching, size = self._worker, self._batching, self._state.controller.size
        if batching is None:
            return worker.job.batch_size, size
        iteration = worker.progress.iteration + 1
        due = not iteration % batching.period and self._state.timed_in < iteration
        if due or self._state.timed_for != size:
            power = self._state.power | await self._ask(iteration)
            self._state = State(self._state.controller, power, iteration, size)
        known, least = self._state.power, min(self._state.power.values())
        alive = {node: known.get(node, least) for node in (worker.node, *worker.alive)}
        return own_batch_size(size, alive, worker.node), size

    async def after_step(self, step_: Step, samples: int) -> None:
        """Count and record an iteration, and evaluate where it is due."""
        worker, iteration = self._worker, step_.iteration
        controller = step(self._state.controller, self._growth, self._data_samples)
        self._state = self._state._replace(controller=controller)
        restarts = worker.context.restarts
        worker.context.record(
            Iteration(iteration, samples, self.global_batch, step_.loss, restarts)
        )
        last = worker.job.last_iteration
        if iteration < last and worker.job.evaluates(iteration, last):
            worker.context.record(Evaluated(iteration, await worker.evaluate()))

    async def after_epoch(self, exchange: Exchange) -> None:
        """Count no epochs."""

    def state(self) -> State:
        """State of the controllers."""
        return self._state

    async def resume(self, state: State | None) -> None:
        """Go on with a peer's controllers."""
        if state is not None:
            self._state = state

    async def _ask(self, iteration: int) -> dict[int, float]:
        """Measure, and wait for what the others have measured in the same iteration."""
        worker = self._worker
        heard = self._heard[iteration]
        heard[worker.node] = await self._measure()
        worker.heartbeat.sent["power"] = iteration
        worker.tell("power", (iteration, heard[worker.node]))
        await worker.until(
            lambda: all(
                peer in heard or worker.has_sent(peer, "power", iteration) for peer in worker.alive
            )
        )
        for old in [at for at in self._heard if at <= iteration]:
            del self._heard[old]
        return heard

    async def _measure(self) -> float:
        assert self._batching is not None
        worker, batching = self._worker, self._batching
        shard, seconds = worker.job.shards[worker.node], []
        for size in batching.sizes:
            began_s = worker.context.now_s()
            await worker.compute(_try_out(np.resize(shard, size).copy()), size, self.label)
            seconds.append(worker.context.now_s() - began_s)
        return relative_power(batching.sizes, seconds)

    def _hear(self, message: Message) -> None:
        iteration, power = message.payload
        self._heard[iteration][message.sender] = power


def _try_out(batch: NDArray[np.int64]) -> Callable[[], Callable[[PeerLearner], None]]:
    batch.flags.writeable = False
    return lambda: methodcaller("try_out", batch=batch)
