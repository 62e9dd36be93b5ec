"""Memory of a dataflow in plain loops: what is alive in each step, and the best of all orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.memory.dataflow import Dataflow


def alive(flow: Dataflow, order: Sequence[int], *, overwriting: bool = True) -> list[int]:
    """Bytes alive in each step, by looking at every buffer."""
    found = []
    for at in range(len(order)):
        now, taken = 0, taken_by(flow, order, at) if overwriting else None
        for buffer in range(len(flow.sizes)):
            made = order.index(next(n for n, s in enumerate(flow.steps) if buffer in s.makes))
            if made <= at <= last_use(flow, order, buffer) and buffer != taken:
                now += int(flow.sizes[buffer])
        found.append(now)
    return found


def last_use(flow: Dataflow, order: Sequence[int], buffer: int) -> int:
    """Place of the last step that needs a buffer: that reads or makes it, or the very last."""
    if buffer in flow.kept:
        return len(order) - 1
    return max(
        at
        for at, step in enumerate(order)
        if buffer in flow.steps[step].reads or buffer in flow.steps[step].makes
    )


def taken_by(flow: Dataflow, order: Sequence[int], at: int) -> int | None:
    """The operand whose memory a step's result takes over."""
    step = flow.steps[order[at]]
    if len(step.makes) != 1:
        return None
    for buffer in step.overwrites:
        same = flow.sizes[buffer] == flow.sizes[step.makes[0]]
        if same and buffer not in flow.kept and last_use(flow, order, buffer) == at:
            return buffer
    return None


def orders(flow: Dataflow, begun: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """All orders in which every step comes after what it needs."""
    if len(begun) == len(flow.steps):
        yield begun
    for step in range(len(flow.steps)):
        if step not in begun and set(flow.before[step]) <= set(begun):
            yield from orders(flow, (*begun, step))


def least_bound(flow: Dataflow) -> int:
    """Of all orders, the least that is alive at once."""
    return min(max(alive(flow, order), default=0) for order in orders(flow))
