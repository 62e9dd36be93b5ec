"""A node's part of a scan: it combines values, and sends them to whom they are for (OLPB, Alg. 2).

A node makes its moves in the order of their stages, each as soon as it is free and has both values,
and sends a value in the moment in which it has it. Where nodes compute, values are products of
Jacobians; else they are numbers of elements, and only time passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from workbench.olpb.algorithms.gradients import added
from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.subtasks import Pool
from workbench.olpb.costs.timing import Work
from workbench.olpb.programs.cluster import Delayed, Send, arrived, seconds

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.olpb.algorithms.jacobians import Element, GroupPass
    from workbench.runtime import Context


class Order(NamedTuple):
    """An attempt at a backward pass, as the server sends it to nodes."""

    attempt: int
    plan: Schedule
    work: Work
    groups: Sequence[GroupPass] = ()  # from the loss to the input; none where nodes do not compute


class Combined(NamedTuple):
    """A value of the scan: elements `first` to `last`, both included, combined."""

    first: int
    last: int
    element: Element | None = None  # None where nodes do not compute


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
