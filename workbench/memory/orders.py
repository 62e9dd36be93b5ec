"""Orders in which the steps of a graph run: they decide more of its memory than any packing."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from workbench.memory.dataflow import Dataflow
from workbench.memory.lifetimes import lifetimes

Order = Callable[[Dataflow], Sequence[int]]

STATES, MOST_STATES = 5_000, 200_000
"""That the exact search looks at before it gives up; and where the clock ends it."""
BEAM = 16
"""Sets of steps of each size that are kept where not all can be."""


def traced(flow: Dataflow) -> Sequence[int]:
    """As the module ran them."""
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
    """Of the steps that can run, always the one that leaves the fewest bytes alive.

    As in the search, one that leaves no more and needs no more runs at once.
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


def searched(
    flow: Dataflow, most_states: int = STATES, until_s: float = float("inf")
) -> Sequence[int]:
    """The order with the least bound, by a search over sets of steps that have run.

    Where these are too many, over the most promising of them. `until_s` is of `time.perf_counter`.
    """
    states = _States(flow)
    return _exact(states, most_states, until_s) or _beam(states, until_s)


def _exact(states: _States, most_states: int, until_s: float) -> Sequence[int] | None:
    """Smallest peak first, so that what is whole first is best; None if that takes too long."""
    number = itertools.count()
    waiting = [(0, 0, next(number), states.first)]
    best = {states.first.done: 0}
    for looked_at in range(most_states):
        _, _, _, state = heapq.heappop(waiting)
        if not state.ready:
            return state.order()
        if looked_at % 256 == 0 and time.perf_counter() > until_s:
            return None
        if state.peak > best[state.done]:
            continue
        for following in states.following(state):
            if following.peak < best.get(following.done, following.peak + 1):
                best[following.done] = following.peak
                heapq.heappush(waiting, (following.peak, -following.ran, next(number), following))
    return None


def _beam(states: _States, until_s: float) -> Sequence[int]:
    """By number of steps that have run, the sets of least peak, then of least bytes alive."""
    kept = [states.first]
    while True:
        found: dict[int, _State] = {}
        for state in kept:
            if not state.ready:
                return state.order()
            for following in states.following(state):
                other = found.get(following.done)
                if other is None or following.peak < other.peak:
                    found[following.done] = following
        width = BEAM if time.perf_counter() < until_s else 1
        kept = heapq.nsmallest(width, found.values(), key=lambda state: (state.peak, state.live))


class _State(NamedTuple):
    """Steps that have run, as bits; bytes alive after them, and at most so far."""

    done: int
    ready: tuple[int, ...]
    live: int
    peak: int
    ran: int
    step: int
    earlier: _State | None

    def order(self) -> list[int]:
        """Steps that have run, in their order."""
        found, state = list[int](), self
        while state.earlier is not None:
            found.append(state.step)
            state = state.earlier
        return found[::-1]


class _States:
    """Runs steps on sets of steps that have run."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._sizes = flow.sizes.tolist()
        self._readers = [sum(1 << reader for reader in readers) for readers in flow.readers]
        self._before = [sum(1 << before for before in earlier) for earlier in flow.before]
        self._made = [sum(self._sizes[buffer] for buffer in step.makes) for step in flow.steps]
        self._lost = [
            sum(self._sizes[b] for b in step.makes if not flow.readers[b] and b not in flow.kept)
            for step in flow.steps
        ]
        self._freed = [[b for b in step.reads if b not in flow.kept] for step in flow.steps]
        ready = tuple(step for step, earlier in enumerate(flow.before) if not earlier)
        self.first = _State(0, ready, 0, 0, 0, -1, None)

    def following(self, state: _State) -> list[_State]:
        """What may come next; one alone where a step leaves no more bytes and needs no more.

        Such a step can only help: until any other time at which it might run, as much or less is
        alive, and from then on the same.
        """
        following = []
        for step in state.ready:
            after = self._run(state, step)
            if after.live <= state.live and after.peak <= state.peak:
                return [after]
            following.append(after)
        return following

    def _run(self, state: _State, step: int) -> _State:
        flow, bit = self._flow, 1 << step
        left = ~state.done
        freed, taken, overwrites = 0, 0, flow.steps[step].overwrites
        for buffer in self._freed[step]:
            if self._readers[buffer] & left == bit:
                freed += self._sizes[buffer]
                if not taken and buffer in overwrites and self._sizes[buffer] == self._made[step]:
                    taken = self._sizes[buffer]
        done = state.done | bit
        during = state.live + self._made[step] - taken
        ready = [ready for ready in state.ready if ready != step]
        ready += [behind for behind in flow.behind[step] if self._before[behind] & ~done == 0]
        live = state.live + self._made[step] - freed - self._lost[step]
        peak = max(state.peak, during)
        return _State(done, tuple(ready), live, peak, state.ran + 1, step, state)


def quick_order(flow: Dataflow) -> Sequence[int]:
    """The best of the orders that are found at once."""
    quick = [traced(flow), depth_first(flow), best_first(flow)]
    return min(quick, key=lambda order: lifetimes(flow, order).bound_bytes)


ORDERS: Mapping[str, Order] = {
    "traced": traced,
    "depth_first": depth_first,
    "best_first": best_first,
    "searched": searched,
}
