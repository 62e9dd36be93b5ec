"""Backward passes by scan: a server deals subtasks to nodes, which combine them (Fig. 4, Alg. 2).

The server asks nodes for their conditions before every backward pass. Where a node has left, which
shows by its silence alone, all subtasks are dealt again to those that are alive, and the pass
begins again, with what it was given: no gradient is lost. A node that comes back is given subtasks
from the next pass on; where the server has ended by then, nobody answers it, and it ends as well.

With learning, nodes multiply Jacobians of their groups, and report gradients to the server, which
steps from them; without, only time passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from workbench.olpb.algorithms.assignment import assign, assign_batches
from workbench.olpb.algorithms.gradients import added
from workbench.olpb.algorithms.schedules import Schedule, batched, schedule
from workbench.olpb.costs.backward import as_paper_counts
from workbench.olpb.costs.subtasks import Node, Pool, Subtask
from workbench.olpb.costs.timing import Work
from workbench.olpb.programs.cluster import Delays
from workbench.olpb.programs.node import Order, carry_out
from workbench.runtime import Message

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.olpb.algorithms.jacobians import GroupPass
    from workbench.runtime import Context, Program, Task


class Part(NamedTuple):
    """A part of the model's vector, and its buffers, after an iteration (from 1)."""

    iteration: int
    where: slice
    weights: Tensor
    buffers: Mapping[str, Tensor]


class Forward(NamedTuple):
    """A forward pass of the server."""

    loss: float | None = None
    groups: Sequence[GroupPass] = ()  # from the loss to the input; none where nodes do not compute


class Learner:
    """The learning of the server: here none, so nodes only take their time."""

    def begin(self, iteration: int) -> Forward:
        """Pass a batch forward."""
        return Forward()

    def end(self, iteration: int, gradients: Mapping[str, Tensor]) -> Part | None:
        """Step by the nodes' gradients; return the model, if it is to be evaluated."""


@dataclass(frozen=True, eq=False)
class BackwardPasses:
    """Backward passes by scan: all that server and nodes know, but for each other.

    OLPB and BPPSA differ in their subtasks alone.

    Attributes
    ----------
    subtasks
        A scan's elements: the loss's gradient, then the groups from the loss to the input.
    scan
        A name in `SCANS`.
    in_batches
        Whether nodes take one subtask each at a time (Sec. IV), and make it before they combine it;
        else each has a run of them, whose gradients it computes when the scan has reached them.
    random_delays
        Whether a message takes ``Exp(1) * delay_s``, from the run's seed, or `delay_s`.
    costs
        What a schedule's moves, messages and groups cost; by default as the paper counts.
    forward_s
        Of the forward pass, which the server does alone.
    answer_s
        Within which nodes and the server answer each other if they are alive: at once if
        simulated; if measured, give a second.
    """

    subtasks: tuple[Subtask, ...]
    pool: Pool
    iterations: int = 1
    scan: str = field(default="hillis_steele", kw_only=True)
    in_batches: bool = field(default=False, kw_only=True)
    random_delays: bool = field(default=False, kw_only=True)
    costs: Callable[[Schedule], Work] | None = field(default=None, kw_only=True)
    learner: Learner = field(default_factory=Learner, kw_only=True)
    forward_s: float = field(default=0.0, kw_only=True)
    answer_s: float = field(default=0.0, kw_only=True)

    @property
    def programs(self) -> list[Program]:
        """Programs for the nodes of ``cluster_of(pool)``, in their order; the server's is the last.

        The server's returns a list of `Counts`, one a backward pass.
        """
        return [*(partial(_work, self) for _ in self.pool.nodes), partial(_serve, self)]

    @cached_property
    def timeout_s(self) -> float:
        """Seconds that the server waits for the next node before it asks which are still alive.

        In a pass twice as long each time.
        """
        slowest = min(node.flops_per_s for node in self.pool.nodes)
        flops = sum(group.backward_flops for group in self.subtasks)
        dispatches_s = len(self.subtasks) * self.pool.dispatch_s
        return flops / slowest + dispatches_s + self.pool.delay_s or 1.0

    def planned(self, nodes: Mapping[int, Node]) -> tuple[tuple[range, ...], Schedule, Work]:
        """Elements by node, the scan of them, and what it costs, on the nodes that are alive."""
        pool = replace(
            self.pool,
            nodes=tuple(nodes.get(number, node) for number, node in enumerate(self.pool.nodes)),
        )
        left = set(range(len(pool.nodes))) - nodes.keys()
        deal, plan = (assign_batches, batched) if self.in_batches else (assign, schedule)
        dealt = deal(self.subtasks, pool, left)
        planned = plan(self.scan, len(self.subtasks), dealt, exclusive=True)
        if self.costs is not None:
            return dealt, planned, self.costs(planned)
        return dealt, planned, as_paper_counts(planned, self.subtasks, local_first=self.in_batches)


class Counts(NamedTuple):
    """A backward pass as it ran; S and W are of its plan."""

    iteration: int
    begin_s: float
    backward_s: float  # until the last node was done, attempts that failed included
    dealt: tuple[range, ...]  # elements, by node
    plan: Schedule
    attempts: int  # above 1 where a node left


class _Answer(NamedTuple):
    """A node's answer to the server."""

    conditions: Node
    attempt: int | None  # that it works on


@dataclass(eq=False)
class _Server:
    """The server of some backward passes; `attempt` numbers those that are tried."""

    passes: BackwardPasses
    context: Context
    attempt: int = 0
    asked: int = 0

    async def serve(self) -> list[Counts]:
        """Program of the server."""
        passes, context = self.passes, self.context
        done: list[Counts] = []
        context.spawn(self._welcome())
        for iteration in range(passes.iterations):
            begin = partial(passes.learner.begin, iteration)
            forward = await context.compute(begin, cost_s=passes.forward_s, lane="forward")
            if forward.loss is not None:
                context.record(forward.loss)
            counts, gradients = await self._backward(iteration, forward.groups)
            done.append(counts)
            if (model := passes.learner.end(iteration, gradients)) is not None:
                context.record(model)
        self._tell(range(len(passes.pool.nodes)), "end")
        return done

    def _tell(self, nodes: Iterable[int], topic: str, payload: object = None) -> None:
        for node in nodes:
            self.context.send(node, Message(self.context.node, topic, payload, control=True))

    async def _welcome(self) -> None:
        """Answer nodes that come back, as long as the server runs."""
        while True:
            self._tell([(await self.context.receive("back")).sender], "welcome")

    async def _backward(
        self, iteration: int, groups: Sequence[GroupPass]
    ) -> tuple[Counts, dict[str, Tensor]]:
        """A backward pass, tried until all nodes that have subtasks are done, and its gradients."""
        begin_s, first = self.context.now_s(), self.attempt
        reports = None
        while reports is None:
            self.attempt += 1
            alive = await self._alive()
            nodes = {node: answer.conditions for node, answer in alive.items()}
            dealt, plan, work = self.passes.planned(nodes)
            busy = [node for node, own in enumerate(dealt) if own]
            self._tell(busy, "order", Order(self.attempt, plan, work, groups))
            reports = await self._collected(busy)
        took_s = self.context.now_s() - begin_s
        return Counts(iteration, begin_s, took_s, dealt, plan, self.attempt - first), added(reports)

    async def _collected(self, busy: Sequence[int]) -> list[Mapping[str, Tensor]] | None:
        """Gradients by node; None where one of them has left, or begun again, before its own."""
        reports: dict[int, Mapping[str, Tensor]] = {}
        timeout_s = self.passes.timeout_s
        while len(reports) < len(busy):
            try:
                done = await self.context.receive(f"done {self.attempt}", timeout_s=timeout_s)
                reports[done.sender] = done.payload
            except TimeoutError:
                alive = await self._alive()
                for node in busy:
                    at_work = node in alive and alive[node].attempt == self.attempt
                    if node not in reports and not at_work:
                        return None
                timeout_s *= 2
        return [reports[node] for node in busy]

    async def _alive(self) -> dict[int, _Answer]:
        """Answers of the nodes that are alive."""
        self.asked += 1
        topic, count = f"conditions {self.asked}", len(self.passes.pool.nodes)
        self._tell(range(count), "ask", topic)
        answers: dict[int, _Answer] = {}
        while len(answers) < count:
            try:
                answer = await self.context.receive(topic, timeout_s=self.passes.answer_s)
            except TimeoutError:
                break
            answers[answer.sender] = answer.payload
        return answers


async def _serve(passes: BackwardPasses, context: Context) -> list[Counts]:
    return await _Server(passes, context).serve()


async def _work(passes: BackwardPasses, context: Context) -> None:
    """Program of a node: says what it has, and carries out its part of a scan, until the end."""
    server = len(passes.pool.nodes)
    task: Task[None] | None = None
    attempt = None
    if context.restarts:
        context.send(server, Message(context.node, "back", control=True))
        try:
            await context.receive("welcome", timeout_s=passes.answer_s)
        except TimeoutError:
            return
    while (message := await context.receive(sender=server)).topic != "end":
        if message.topic == "order":
            if task is not None:
                task.cancel()
            attempt = message.payload.attempt
            task = context.spawn(_report(context, passes, message.payload))
        else:
            answer = _Answer(passes.pool.nodes[context.node], attempt)
            context.send(server, Message(context.node, message.payload, answer, control=True))


async def _report(context: Context, passes: BackwardPasses, order: Order) -> None:
    """Do a node's part of a backward pass, and report; gradients take no time to the server."""
    send = Delays(passes.pool, passes.random_delays).send
    gradients = await carry_out(context, order, passes.pool, send)
    done = Message(context.node, f"done {order.attempt}", gradients, control=True)
    context.send(len(passes.pool.nodes), done)
