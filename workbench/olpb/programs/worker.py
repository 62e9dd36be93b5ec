"""A node: says what it has, and carries out its part of a scan (OLPB, Alg. 2).

It makes its moves in the order of their stages, each as soon as it is free and has both values, and
sends a value to whom it is for in the moment in which it has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.olpb.programs.cluster import Delayed, arrived, seconds
from workbench.olpb.programs.work import Held, Job, Order, Report
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context, Program, Task


def worker(job: Job) -> Program:
    """Program of a node; it ends when the server says so, and returns nothing."""
    server = len(job.pool.nodes)

    async def program(context: Context) -> None:
        task: Task[None] | None = None
        attempt = None
        if job.over:
            return
        while (told := await context.receive(sender=server)).topic != "end":
            if told.topic == "order":
                if task is not None:
                    task.cancel()
                attempt = told.payload.attempt
                task = context.spawn(carry_out(context, job, told.payload))
            else:
                conditions = job.pool.nodes[context.node], attempt
                context.send(server, Message(context.node, told.payload, conditions, control=True))

    return program


async def carry_out(context: Context, job: Job, order: Order) -> None:
    """Do a node's part of a backward pass, and report."""
    mine, node = _Part(context, job, order), context.node
    for element in order.run:
        mine.keep(element, Held(element, element))
    steps = work = 0
    moves = (move for stage in order.plan.stages for move in stage)
    for move, flops in zip(moves, order.work.move_flops, strict=True):
        if move.node == node:
            left, right = await mine.value(move.left), await mine.value(move.right)
            assert left.last + 1 == right.first, "it combines what is not side by side"
            await context.compute(
                _nothing,
                cost_s=seconds(job.pool, node, flops),
                lane="scan",
                label=f"{left.first}-{left.last} with {right.first}-{right.last}",
            )
            work, steps = work + 1, 1 + max(steps, left.steps, right.steps)
            mine.keep(move.result, Held(left.first, right.last, steps))
    for element in order.run:
        prefix = order.plan.prefixes[element]
        if prefix is not None:
            before = await mine.value(prefix)
            assert before[:2] == (0, element - 1), "it is not what precedes the element"
            flops = order.work.after_flops[element]
            await context.compute(
                _nothing,
                cost_s=seconds(job.pool, node, flops, dispatches=0),
                lane="parameters" if flops else "",
                label=f"group {element}",
            )
    report = Message(node, order.done, Report(steps, work), control=True)
    context.send(len(job.pool.nodes), report)


def _nothing() -> None:
    """What a node computes, but for the time that it takes."""


class _Part:
    """Values that a node has, and those that are on their way to it."""

    def __init__(self, context: Context, job: Job, order: Order) -> None:
        self._context, self._job, self._order = context, job, order
        self._held: dict[int, Held] = {}
        self._coming: dict[int, Delayed] = {}
        self._targets: dict[int, list[int]] = {}
        for message in order.plan.messages:
            if message.source == context.node:
                self._targets.setdefault(message.value, []).append(message.target)

    def keep(self, number: int, value: Held) -> None:
        """Have a value, and send it to whom it is for."""
        self._held[number] = value
        size_bytes, topic = self._order.work.value_bytes[number], self._order.values
        for target in self._targets.get(number, ()):
            self._job.delays.send(self._context, target, topic, (number, value), size_bytes)

    async def value(self, number: int) -> Held:
        """Wait for a value until it is there."""
        if number in self._held:
            return self._held[number]
        while number not in self._coming:
            delayed: Delayed = (await self._context.receive(self._order.values)).payload
            self._coming[delayed.value[0]] = delayed
        _, self._held[number] = await arrived(self._context, self._coming[number])
        return self._held[number]
