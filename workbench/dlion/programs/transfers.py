"""Direct knowledge transfer at one worker: losses, requests and weights (Sec. 3.4)."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.dlion.algorithms.knowledge_transfer import Transfer
    from workbench.dlion.programs.worker import Worker
    from workbench.runtime import Message


class Weights(NamedTuple):
    """The best worker's model."""

    iteration: int
    parameters: Tensor
    buffers: Mapping[str, Tensor]  # weigh nothing on the links, as in `workbench.training`


class Transfers:
    """Compares losses with the others', asks for weights and hands its own over."""

    def __init__(self, worker: Worker, transfer: Transfer) -> None:
        self._worker, self._transfer = worker, transfer
        self._latest: deque[float] = deque(maxlen=transfer.losses)
        self._losses: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._asked: list[int] = []  # whose weights are to come

    def start(self) -> None:
        """Listen to the others."""
        self._worker.on("loss", self._hear)
        self._worker.on("request", self._hand_over)
        self._worker.on("weights", self._merge)

    def learnt(self, iteration: int, loss: float) -> None:
        """Note an iteration's loss; where losses are compared, tell the others."""
        self._latest.append(loss)
        if self._transfer.is_due(iteration):
            mean = fmean(self._latest)
            self._worker.tell("loss", (iteration, mean))
            self._losses[iteration][self._worker.node] = mean
            self._compare(iteration)

    def _hear(self, message: Message) -> None:
        iteration, loss = message.payload
        self._losses[iteration][message.sender] = loss
        self._compare(iteration)

    def _compare(self, iteration: int) -> None:
        """Ask for the best weights once all losses of an iteration are known."""
        worker, losses = self._worker, self._losses[iteration]
        if not self._is_complete(losses):
            return
        del self._losses[iteration]
        if self._transfer.asks(worker.node, losses):
            best = self._transfer.best(losses)
            self._asked.append(best)
            worker.tell("request", to=best)

    def _is_complete(self, losses: Mapping[int, float]) -> bool:
        return losses.keys() >= {self._worker.node, *self._worker.there}

    def settled(self) -> bool:
        """Whether nothing is to come of comparisons that the worker took part in."""
        node, there = self._worker.node, self._worker.there
        compared = all(
            map(self._is_complete, (one for one in self._losses.values() if node in one))
        )
        return compared and not {*self._asked} & {*there}

    def _hand_over(self, message: Message) -> None:
        learner = self._worker.up_to_date
        iteration = self._worker.progress.iteration
        weights = Weights(iteration, learner.snapshot(), learner.buffers())
        self._worker.send(message.sender, "weights", weights, weights.parameters.nbytes)

    def _merge(self, message: Message) -> None:
        weights: Weights = message.payload
        if message.sender in self._asked:
            self._asked.remove(message.sender)
        learner = self._worker.up_to_date
        learner.merge(weights.parameters, self._transfer.share)
        learner.merge_buffers(weights.buffers, self._transfer.share)
        self._worker.heard(message, weights.iteration, len(weights.parameters))
