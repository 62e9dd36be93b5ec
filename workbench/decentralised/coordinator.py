"""A coordinator: before each epoch it gathers a report of every node, and decides for all.

EdgeGossip's balancer is one (Han et al. 2021, Fig. 2, Alg. 1). Reports and decisions are a few
numbers, and cost no bytes on the links, where they queue behind models.

Deviation: failures, which the paper leaves open. Nodes that are silent for `patience_s` are left
out of a decision; while the coordinator is silent, the others go on with its newest decision, which
a node that restarts fetches with a peer's model. Reports are repeated as often as
heartbeats, and answered, so that nobody waits for a lost message, and a restarted coordinator soon
knows them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from workbench.decentralised.heartbeat import BEATS

if TYPE_CHECKING:
    from workbench.decentralised.selecting import View
    from workbench.decentralised.worker import Worker
    from workbench.runtime import Message

State = TypeVar("State")


@runtime_checkable
class Coordinated(Protocol[State]):
    """A `Selector` with a coordinator, which decides for all nodes before each epoch."""

    coordinator: int  # the node

    def report(self, state: State, view: View) -> tuple[State, Any]:
        """Next state of a node, and its report."""

    def decide(self, reports: Mapping[int, Any]) -> Any:
        """Decide for all nodes by the reports of those that are alive."""


class Coordination:
    """A node's part in the coordination: it reports and waits, or gathers and decides."""

    def __init__(self, worker: Worker, by: Coordinated[Any]) -> None:
        self._worker, self._by, self.report = worker, by, by.report
        # Each with its epoch; 0 before the first.
        self._own: tuple[int, Any] = 0, None  # the node's newest report
        self._reports: dict[int, tuple[int, Any]] = {}  # at the coordinator, the newest by node
        self.newest: tuple[int, Any] = 0, None  # decision known to the node

    def start(self) -> None:
        """Listen to reports at the coordinator, elsewhere to decisions."""
        worker = self._worker
        if worker.node == self._by.coordinator:
            worker.on("report", self._take_report)
            return
        worker.on("decision", self._take_decision)
        if worker.patience_s < math.inf:
            worker.context.spawn(self._repeat())

    async def decision(self, epoch: int, report: Any) -> Any:
        """Report before an epoch, and wait for the decision, or until the coordinator is gone."""
        worker, coordinator = self._worker, self._by.coordinator
        if worker.node == coordinator:
            return await self._decide(epoch, report)
        self._own = epoch, report
        worker.tell("report", self._own, to=coordinator)
        await worker.until(lambda: self.newest[0] >= epoch or not worker.is_alive(coordinator))
        return self.newest[1]

    async def _repeat(self) -> None:
        while True:
            await self._worker.context.sleep(self._worker.patience_s / BEATS)
            if self._own[0]:
                self._worker.tell("report", self._own, to=self._by.coordinator)

    async def _decide(self, epoch: int, report: Any) -> Any:
        """Gather the reports of all nodes that are alive, and tell them the decision."""
        worker, reports = self._worker, self._reports
        reports[worker.node] = epoch, report
        self.newest = epoch - 1, self.newest[1]  # earlier epochs get no decision of their own
        await worker.until(
            lambda: all(
                (node in reports and reports[node][0] >= epoch) or not worker.is_alive(node)
                for node in worker.heartbeat.sources
            )
        )
        alive = {worker.node, *filter(worker.is_alive, worker.heartbeat.sources)}
        decision = self._by.decide({node: reports[node][1] for node in sorted(alive & {*reports})})
        self.newest = epoch, decision
        worker.tell("decision", self.newest, to=worker.context.peers)
        return decision

    def _take_report(self, message: Message) -> None:
        self._reports[message.sender] = message.payload
        if message.payload[0] <= self.newest[0]:  # repeated, or from a node that is behind
            self._worker.tell("decision", self.newest, to=message.sender)

    def _take_decision(self, message: Message) -> None:
        epoch, decision = message.payload
        if epoch > self.newest[0]:
            self.newest = epoch, self.newest[1] if decision is None else decision
