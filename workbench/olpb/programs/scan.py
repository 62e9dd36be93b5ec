"""Backward passes by scan: a server deals subtasks to nodes, which combine them (Fig. 4, Alg. 2).

The server asks nodes for their conditions before every backward pass. Where a node has left, which
shows by its silence alone, all subtasks are dealt again to those that are alive, and the pass
begins again, with what it was given: no gradient is lost. A node that comes back is given subtasks
from the next pass on; where the server has ended by then, nobody answers it, and it ends as well.

A node makes its moves in the order of their stages, each as soon as it is free and has both values,
and sends a value to whom it is for in the moment in which it has it.

With learning, values are products of Jacobians, which nodes compute from their groups, and reports
take gradients to the server, which steps from them. Without, values are numbers of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from workbench.olpb.algorithms.assignment import assign, assign_batches
from workbench.olpb.algorithms.gradients import added
from workbench.olpb.algorithms.schedules import Schedule, batched, schedule
from workbench.olpb.costs.backward import as_paper_counts
from workbench.olpb.costs.subtasks import Node, Pool, Subtask
from workbench.olpb.costs.timing import Work
from workbench.olpb.programs.cluster import Delayed, Delays, Send, arrived, seconds
from workbench.runtime import Message

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.olpb.algorithms.jacobians import Element, GroupPass
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


class Order(NamedTuple):
    """An attempt at a backward pass, as the server sends it to nodes."""

    attempt: int
    plan: Schedule
    work: Work
    groups: Sequence[GroupPass] = ()  # as in `Forward`


class Combined(NamedTuple):
    """A value of the scan: elements `first` to `last`, both included, combined."""

    first: int
    last: int
    element: Element | None = None  # None where nodes do not compute


class Counts(NamedTuple):
    """A backward pass as it ran; S and W are of its plan."""

    iteration: int
    begin_s: float
    backward_s: float  # until the last node was done, attempts that failed included
    dealt: tuple[range, ...]  # elements, by node
    plan: Schedule
    attempts: int  # above 1 where a node left


async def _serve(passes: BackwardPasses, context: Context) -> list[Counts]:
    """Program of the server."""
    done: list[Counts] = []
    context.spawn(_welcome(context))
    asking = _Asking(context, len(passes.pool.nodes), passes.answer_s)
    for iteration in range(passes.iterations):
        begin = partial(passes.learner.begin, iteration)
        forward = await context.compute(begin, cost_s=passes.forward_s, lane="forward")
        if forward.loss is not None:
            context.record(forward.loss)
        counts, gradients = await _backward(context, passes, asking, iteration, forward.groups)
        done.append(counts)
        if (model := passes.learner.end(iteration, gradients)) is not None:
            context.record(model)
    for node in range(len(passes.pool.nodes)):
        context.send(node, Message(context.node, "end", control=True))
    return done


async def _welcome(context: Context) -> None:
    """Answer nodes that come back, as long as the server runs."""
    while True:
        node = (await context.receive("back")).sender
        context.send(node, Message(context.node, "welcome", control=True))


async def _backward(
    context: Context,
    passes: BackwardPasses,
    asking: _Asking,
    iteration: int,
    groups: Sequence[GroupPass],
) -> tuple[Counts, dict[str, Tensor]]:
    """A backward pass, tried until all nodes that have subtasks are done, and its gradients."""
    begin_s, first = context.now_s(), asking.attempt
    reports = None
    while reports is None:
        asking.attempt += 1
        alive = await asking.conditions()
        nodes = {node: answer.conditions for node, answer in alive.items()}
        dealt, plan, work = passes.planned(nodes)
        busy = [node for node, own in enumerate(dealt) if own]
        order = Order(asking.attempt, plan, work, groups)
        for node in busy:
            context.send(node, Message(context.node, "order", order, control=True))
        reports = await _collect(context, passes, asking, busy)
    took_s = context.now_s() - begin_s
    return Counts(iteration, begin_s, took_s, dealt, plan, asking.attempt - first), added(reports)


async def _collect(
    context: Context, passes: BackwardPasses, asking: _Asking, busy: Sequence[int]
) -> list[Mapping[str, Tensor]] | None:
    """Gradients by node; None where one of them has left, or begun again, before it was done."""
    reports: dict[int, Mapping[str, Tensor]] = {}
    timeout_s = passes.timeout_s
    while len(reports) < len(busy):
        try:
            done = await context.receive(f"done {asking.attempt}", timeout_s=timeout_s)
            reports[done.sender] = done.payload
        except TimeoutError:
            alive = await asking.conditions()
            for node in busy:
                at_work = node in alive and alive[node].attempt == asking.attempt
                if node not in reports and not at_work:
                    return None
            timeout_s *= 2
    return [reports[node] for node in busy]


class _Answer(NamedTuple):
    """A node's answer to the server."""

    conditions: Node
    attempt: int | None  # that it works on


class _Asking:
    """Asks nodes for their conditions; `attempt` numbers the backward passes that are tried."""

    def __init__(self, context: Context, nodes: int, answer_s: float) -> None:
        self._context, self._nodes, self._asked = context, nodes, 0
        self._answer_s = answer_s
        self.attempt = 0

    async def conditions(self) -> dict[int, _Answer]:
        """Answers of nodes that are alive."""
        self._asked += 1
        topic = f"conditions {self._asked}"
        for node in range(self._nodes):
            self._context.send(node, Message(self._context.node, "ask", topic, control=True))
        answers: dict[int, _Answer] = {}
        while len(answers) < self._nodes:
            try:
                answer = await self._context.receive(topic, timeout_s=self._answer_s)
            except TimeoutError:
                break
            answers[answer.sender] = answer.payload
        return answers


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


async def carry_out(context: Context, order: Order, pool: Pool, send: Send) -> Mapping[str, Tensor]:
    """Carry out the part of a scan that the node of this number in the pool has (OLPB, Alg. 2).

    Returns the gradients of the parameters in its groups; none where nodes do not compute.
    """
    values, node, plan = _Values(context, order, send), context.node, order.plan
    own = [element for element in range(plan.elements) if plan.homes[element] == node]
    move_flops = iter(order.work.move_flops)
    for number, stage in enumerate([*plan.stages, ()]):
        for element in own:
            if plan.made_after[element] == number:
                values.keep(element, await _made(context, order, pool, element))
        for move, flops in zip(stage, move_flops, strict=False):
            if move.node != node:
                continue
            left, right = await values.value(move.left), await values.value(move.right)
            assert left.last + 1 == right.first, "it combines what is not side by side"
            product = await context.compute(
                partial(_product, left.element, right.element),
                cost_s=seconds(pool, node, flops),
                lane="scan",
                label=f"{left.first}-{left.last} with {right.first}-{right.last}",
            )
            values.keep(move.result, Combined(left.first, right.last, product))
    gradients: list[Mapping[str, Tensor]] = []
    for element in own:
        prefix = plan.prefixes[element]
        if prefix is not None:
            before = await values.value(prefix)
            ends = (before.first, before.last)
            assert ends in ((0, element - 1), (0, element)), "it is not what precedes the element"
            flops = order.work.after_flops[element]
            computed = await context.compute(
                partial(_parameter_gradients, order, element, before.element),
                cost_s=seconds(pool, node, flops, dispatches=0),
                lane="parameters" if flops else "",
                label=f"group {element}",
            )
            gradients.append(computed)
    return added(gradients)


async def _made(context: Context, order: Order, pool: Pool, number: int) -> Combined:
    """The gradient of the loss by itself, or a group's Jacobian.

    Its time is that of the group's derivatives where they are paid before the scan, else none.
    """
    element: Element | None = None
    if order.groups:
        element = order.groups[number - 1].jacobian() if number else np.ones(1)
    flops = order.work.element_flops[number] if order.work.element_flops else 0.0
    if flops:
        cost_s = seconds(pool, context.node, flops, dispatches=0)
        label = f"group {number}"
        await context.compute(lambda: None, cost_s=cost_s, lane="derivatives", label=label)
    return Combined(number, number, element)


def _product(earlier: Element | None, later: Element | None) -> Element | None:
    """Apply the operator ι, if nodes compute."""
    return None if earlier is None or later is None else later @ earlier


def _parameter_gradients(order: Order, number: int, at_end: Element | None) -> dict[str, Tensor]:
    """Gradients of a group's parameters, from that at its end."""
    if at_end is None:
        return {}
    return order.groups[number - 1].parameter_gradients(np.asarray(at_end))


class _Values:
    """Values that a node has, and those that are on their way to it."""

    def __init__(self, context: Context, order: Order, send: Send) -> None:
        self._context, self._value_bytes, self._send = context, order.work.value_bytes, send
        self._topic = f"value {order.attempt}"
        self._held: dict[int, Combined] = {}
        self._coming: dict[int, Delayed] = {}
        self._targets: dict[int, list[int]] = {}
        for message in order.plan.messages:
            if message.source == context.node:
                self._targets.setdefault(message.value, []).append(message.target)

    def keep(self, number: int, value: Combined) -> None:
        """Have a value, and send it to whom it is for."""
        self._held[number] = value
        for target in self._targets.get(number, ()):
            size_bytes = self._size_bytes(number, value)
            self._send(self._context, target, self._topic, (number, value), size_bytes)

    def _size_bytes(self, number: int, value: Combined) -> float:
        """Bytes of a value: of its arrays where it has any, unless bytes do not count."""
        if self._value_bytes is None:
            return 0.0
        if value.element is None:
            return self._value_bytes[number]
        from workbench.olpb.algorithms.jacobians import size_bytes

        return size_bytes(value.element)

    async def value(self, number: int) -> Combined:
        """Wait for a value, and return it."""
        if number not in self._held:
            while number not in self._coming:
                delayed: Delayed = (await self._context.receive(self._topic)).payload
                self._coming[delayed.value[0]] = delayed
            _, self._held[number] = await arrived(self._context, self._coming[number])
        return self._held[number]
