"""A worker's batch sizes over a training, on which all workers agree (Sec. 3.2).

The global batch is a function of the iteration, so that nobody needs to be asked. Power is measured
in the same iterations by all; each waits there for what the others have found.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from workbench.decentralised.learner import Learner
from workbench.dlion.algorithms.global_batch import CONSTANT, GlobalBatch, step
from workbench.dlion.algorithms.local_batch import of_those_there, relative_power

if TYPE_CHECKING:
    from workbench.dlion.programs.worker import Worker
    from workbench.runtime import Message


class State(NamedTuple):
    """What decides the sizes."""

    controller: GlobalBatch
    power: dict[int, float]


class BatchSizes:
    """The controllers of global and local batch sizes at one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._batching = worker, worker.job.system.batching
        setup = worker.job.setup
        self._growth = CONSTANT if self._batching is None else self._batching.growth
        self._data_samples = sum(map(len, setup.held))
        self._heard: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self.global_batch = setup.local_batch * len(setup.held)
        self.state = State(GlobalBatch(self.global_batch), {})

    def start(self) -> None:
        """Listen to the others."""
        if self._batching is not None:
            self._worker.on("power", self._hear)

    async def next(self) -> int:
        """Size of the worker's next batch."""
        worker, batching = self._worker, self._batching
        iteration, before = worker.progress.iteration + 1, self.global_batch
        controller, power = self.state
        self.global_batch = controller.size
        if batching is not None:
            due = not power or self.global_batch != before or not iteration % batching.period
            if due:
                power = await self._ask(iteration)
            if worker.node not in power:  # back from a crash
                power = power | {worker.node: min(power.values())}
        self.state = State(step(controller, self._growth, self._data_samples), power)
        if batching is None:
            return worker.job.setup.local_batch
        return of_those_there(self.global_batch, power, worker.node)

    async def _ask(self, iteration: int) -> dict[int, float]:
        """Measure, and wait for what the others have measured in the same iteration."""
        worker = self._worker
        heard = self._heard[iteration]
        heard[worker.node] = await self._measure()
        worker.tell("power", (iteration, heard[worker.node]))
        await worker.until(lambda: heard.keys() >= {*worker.there})
        for old in [one for one in self._heard if one <= iteration]:
            del self._heard[old]
        there = {*worker.there, worker.node}
        return {node: power for node, power in heard.items() if node in there}

    async def _measure(self) -> float:
        assert self._batching is not None
        worker, batching = self._worker, self._batching
        shard, seconds = worker.job.setup.held[worker.node], []
        for size in batching.sizes:
            batch = np.resize(shard, size).copy()
            batch.flags.writeable = False
            began_s = worker.context.now_s()
            await worker.timed(partial(Learner.try_out, batch=batch), size)
            seconds.append(worker.context.now_s() - began_s)
        return relative_power(batching.sizes, seconds, batching.unit_s)

    def _hear(self, message: Message) -> None:
        iteration, power = message.payload
        self._heard[iteration][message.sender] = power
