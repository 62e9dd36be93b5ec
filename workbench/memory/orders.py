"""Orders in which the steps of a graph run: they decide more of its memory than any packing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench.memory.dataflow import Dataflow
from workbench.memory.lifetimes import lifetimes

Order = Callable[[Dataflow], Sequence[int]]


def traced(flow: Dataflow) -> Sequence[int]:
    """The order in which the module ran."""
    return range(len(flow.steps))


def depth_first(flow: Dataflow) -> Sequence[int]:
    """Post-order from the outputs, as Owl evaluates a graph (Zhao et al., Sec. V-B)."""
    order: list[int] = []
    seen: set[int] = set()
    outputs = sorted(int(flow.maker[buffer]) for buffer in flow.kept)
    left = [step for step in range(len(flow.steps)) if not flow.behind[step]]
    for root in dict.fromkeys([*outputs, *left]):
        waiting = [(root, False)]
        while waiting:
            step, is_ready = waiting.pop()
            if is_ready:
                order.append(step)
            elif step not in seen:
                seen.add(step)
                waiting.append((step, True))
                waiting += [(before, False) for before in reversed(flow.before[step])]
    return order


def best_first(flow: Dataflow) -> Sequence[int]:
    """Greedy order: of the steps that can run, that which leaves the fewest bytes alive.

    A step that neither leaves more bytes nor needs more runs at once: it can only help.
    """
    sizes = flow.sizes.tolist()
    unread = [len(readers) + (buffer in flow.kept) for buffer, readers in enumerate(flow.readers)]
    missing = [len(earlier) for earlier in flow.before]

    def effect(step: int) -> tuple[int, int]:
        """Bytes more alive after a step, and while it runs."""
        current = flow.steps[step]
        made = sum(sizes[buffer] for buffer in current.makes)
        ended = [buffer for buffer in current.reads if unread[buffer] == 1]
        lost = sum(sizes[buffer] for buffer in current.makes if not unread[buffer])
        slides = any(buffer in current.overwrites and sizes[buffer] == made for buffer in ended)
        after = made - lost - sum(sizes[buffer] for buffer in ended)
        return after, 0 if slides else made

    order: list[int] = []
    live = peak = 0
    ready = {step: effect(step) for step, count in enumerate(missing) if not count}
    while ready:
        chosen, least = -1, (0, 0, 0)
        for step, (after, during) in ready.items():
            if after <= 0 and live + during <= peak:
                chosen = step
                break
            worth = (after, max(peak, live + during), step)
            if chosen < 0 or worth < least:
                chosen, least = step, worth
        after, during = ready.pop(chosen)
        order.append(chosen)
        live, peak = live + after, max(peak, live + during)
        for buffer in flow.steps[chosen].reads:
            unread[buffer] -= 1
            if unread[buffer] == 1:
                changed = ready.keys() & flow.readers[buffer]
                ready.update((step, effect(step)) for step in changed)
        for later in flow.behind[chosen]:
            missing[later] -= 1
            if not missing[later]:
                ready[later] = effect(later)
    return order


def least_bound(flow: Dataflow) -> Sequence[int]:
    """The other order with the fewest bytes alive at once."""
    quick = [traced(flow), depth_first(flow), best_first(flow)]
    return min(quick, key=lambda order: lifetimes(flow, order).bound_bytes)


ORDERS: Mapping[str, Order] = {
    "traced": traced,
    "depth_first": depth_first,
    "best_first": best_first,
    "least_bound": least_bound,
}
