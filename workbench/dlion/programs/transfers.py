"""Direct knowledge transfer at one worker: losses, requests and weights (Sec. 3.4)."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.decentralised.worker import Worker
    from workbench.dlion.algorithms.knowledge_transfer import Transfer
    from workbench.runtime import Message


class Transfers:
    """Compares losses with the others', asks for weights and hands its own over."""

    def __init__(self, worker: Worker, transfer: Transfer) -> None:
        self._worker, self._transfer = worker, transfer
        self._latest: deque[float] = deque(maxlen=transfer.losses)
        self._losses: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._asked: list[tuple[int, float]] = []  # whose weights are to come, and since when

    def start(self) -> None:
        """Listen to the others."""
        self._worker.on("loss", self._hear)
        self._worker.on("request", self._send_weights)
        self._worker.on("weights", self._merge)

    def after_step(self, iteration: int, loss: float) -> None:
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
        if not self._is_complete(iteration):
            return
        del self._losses[iteration]
        if self._transfer.asks(worker.node, losses):
            best = self._transfer.best(losses)
            self._asked.append((best, worker.context.now_s()))
            worker.tell("request", to=best)

    def _is_complete(self, iteration: int) -> bool:
        worker, losses = self._worker, self._losses[iteration]
        return worker.node in losses and all(
            peer in losses or worker.has_sent(peer, "loss", iteration) for peer in worker.alive
        )

    def settled(self) -> bool:
        """Whether nothing is to come of comparisons that the worker took part in."""
        worker, has_answered = self._worker, self._worker.heartbeat.has_answered
        own = [iteration for iteration, losses in self._losses.items() if worker.node in losses]
        return all(map(self._is_complete, own)) and not any(
            peer in worker.alive and not has_answered(peer, asked_s)
            for peer, asked_s in self._asked
        )

    def _send_weights(self, message: Message) -> None:
        worker = self._worker
        best = worker.up_to_date.snapshot()
        worker.send_model(message.sender, "weights", (worker.progress.iteration, best))

    def _merge(self, message: Message) -> None:
        iteration, best = message.payload
        asked = next((request for request in self._asked if request[0] == message.sender), None)
        if asked is not None:
            self._asked.remove(asked)
        self._worker.up_to_date.merge(best, self._transfer.share)
        self._worker.note_arrival(message, iteration, len(best.parameters))
