"""Workers that compute, send and wait, from event to event: the times of a simulated training.

Transfers share interfaces max-min fairly, as in `workbench.runtime.sharing`, and a link carries one
message at a time, first in, first out. Capacities and sizes are constant, so the course of events
most often repeats after a few iterations; its mean is then that of the whole training.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from workbench.dlion.algorithms.synchronisation import MUST, Progress
from workbench.dlion.costs.network import Network
from workbench.errors import UserError

ROUNDING = 1e-12
"""Of the time; events that are no further apart are one."""

SAME = 1e-4
"""Of the longest computation, or of a message; states that differ by no more are one.

Some courses never repeat, but differ from a course that does by less from iteration to iteration.
"""

MOST = 30
"""Iterations of the quickest worker until a course that has not repeated is averaged as it is."""

DRAWN = 160
"""Iterations of all workers that are averaged where what they send is drawn."""

LEAST = 3
"""Iterations that every worker begins before that."""

STUCK = 5000
"""Iterations of all workers after which one that still has not begun so many waits for ever."""


class Message(NamedTuple):
    """What a link carries: something of an iteration, or the answer that it has arrived."""

    iteration: int
    bits: float
    answer: bool = False


class Snapshot(NamedTuple):
    """Totals when the quickest worker begins an iteration."""

    now_s: float
    begun: tuple[int, ...]  # iterations
    transfer_s: tuple[float, ...]
    idle_s: tuple[float, ...]
    shape: tuple[float, ...]  # what may differ between equal discrete states

    def is_like(self, other: Snapshot) -> bool:
        """Whether states are the same, whose discrete parts are equal."""
        return all(abs(a - b) <= SAME for a, b in zip(self.shape, other.shape, strict=True))


class Mean(NamedTuple):
    """Of an iteration of each worker.

    Attributes
    ----------
    iteration_s, transfer_s, idle_s
        All of it; waiting while the worker's links carry something, and while they do not.
    repeats
        Whether the course repeats, so that the mean is that of the whole training.
    """

    iteration_s: list[float]
    transfer_s: list[float]
    idle_s: list[float]
    repeats: bool


Sends = Callable[[int, int], Sequence[tuple[int, float]]]
"""Worker, iteration -> (target, bytes) of what it sends when it has computed."""

MayBegin = Callable[[int, Progress], bool]
"""Whether a worker may begin its next iteration."""


class Course:
    """The course of events, each worker computing `compute_s` an iteration from `start_s` on."""

    def __init__(
        self,
        network: Network,
        compute_s: Sequence[float],
        sends: Sends,
        may_begin: MayBegin,
        *,
        answer_bytes: float | None = None,
        start_s: float = 0.0,
    ) -> None:
        workers = range(len(compute_s))
        self.network, self.compute_s = network, compute_s
        self.sends, self.may_begin, self.answer_bytes = sends, may_begin, answer_bytes
        self.now_s = start_s
        self.progress = [
            Progress(newest=dict.fromkeys([one for one in workers if one != worker], 0))
            for worker in workers
        ]
        self.begins_s = [[start_s] for _ in workers]
        self.transfer_s, self.idle_s = [0.0 for _ in workers], [0.0 for _ in workers]
        self._ends_s = [start_s + compute_s[worker] for worker in workers]  # inf while it waits
        self._queues: list[deque[Message]] = [deque() for _ in network.links]
        self._left = [0.0 for _ in network.links]  # bits of the first in the queue
        self._busy = 0  # bit mask of links whose bits flow
        # (when, number, link, message): its overhead is over, or, with a message, its latency
        self._later: list[tuple[float, int, int, Message | None]] = []
        self._numbers = 0
        self._unanswered: list[dict[int, int]] = [{} for _ in workers]
        self._news: set[int] = set()  # workers whose progress has changed

    def advance(self) -> None:
        """Go on to the next instant at which something happens."""
        rates, left, ends_s = self.network.rates(self._busy), self._left, self._ends_s
        seconds = min([left[link] / bps for link, bps in rates], default=math.inf)
        due_s = min(*ends_s, self._later[0][0] if self._later else math.inf)
        seconds = min(seconds, due_s - self.now_s)
        if seconds == math.inf:
            raise UserError(f"all workers wait, and nothing is on its way; {MUST}")
        for worker, end_s in enumerate(ends_s):
            if end_s == math.inf:
                carries = self._busy & self.network.at_worker[worker]
                (self.transfer_s if carries else self.idle_s)[worker] += seconds
        self.now_s += seconds
        apart_s = ROUNDING * self.now_s
        through = []
        for link, bps in rates:
            left[link] -= bps * seconds
            if left[link] <= bps * apart_s:
                through.append(link)
        self._happen(through, self.now_s + apart_s)

    def _happen(self, through: Sequence[int], by_s: float) -> None:
        """Take note of all that ends now, then begin what may."""
        ends_s = self._ends_s
        for link in through:
            self._busy ^= 1 << link
            self._pass(link)
        while self._later and self._later[0][0] <= by_s:
            *_, link, message = heappop(self._later)
            if message is None:
                self._flow(link)
            else:
                self._deliver(link, message)
        for worker, end_s in enumerate(ends_s):
            if end_s <= by_s:
                self._computed(worker)
        news, self._news = self._news, set()
        for worker in sorted(news):
            if ends_s[worker] == math.inf and self.may_begin(worker, self.progress[worker]):
                self.begins_s[worker].append(self.now_s)
                ends_s[worker] = self.now_s + self.compute_s[worker]

    def _computed(self, worker: int) -> None:
        progress = self.progress[worker]
        progress.iteration += 1
        self._ends_s[worker] = math.inf
        self._news.add(worker)
        for target, size_bytes in self.sends(worker, progress.iteration):
            if self.answer_bytes is not None:
                self._unanswered[worker][target] = progress.iteration
                progress.undelivered = len(self._unanswered[worker])
            link = self.network.number[worker, target]
            self._send(link, Message(progress.iteration, 8 * size_bytes))

    def _send(self, link: int, message: Message) -> None:
        queue = self._queues[link]
        queue.append(message)
        if len(queue) == 1:
            self._start(link)

    def _start(self, link: int) -> None:
        overhead_s = self.network.overheads_s[link]
        if overhead_s and self._queues[link][0].bits:
            self._put_off(overhead_s, link, None)
        else:
            self._flow(link)

    def _put_off(self, seconds: float, link: int, message: Message | None) -> None:
        self._numbers += 1
        heappush(self._later, (self.now_s + seconds, self._numbers, link, message))

    def _flow(self, link: int) -> None:
        bits = self._queues[link][0].bits
        if bits:
            self._left[link] = bits
            self._busy |= 1 << link
        else:
            self._pass(link)

    def _pass(self, link: int) -> None:
        """The first in the queue is through."""
        message, latency_s = self._queues[link].popleft(), self.network.latencies_s[link]
        if self._queues[link]:
            self._start(link)
        if latency_s:
            self._put_off(latency_s, link, message)
        else:
            self._deliver(link, message)

    def _deliver(self, link: int, message: Message) -> None:
        source, target = self.network.links[link]
        self._news.add(target)
        if message.answer:
            unanswered = self._unanswered[target]
            if unanswered.get(source) == message.iteration:
                del unanswered[source]
            self.progress[target].undelivered = len(unanswered)
            return
        newest = self.progress[target].newest
        newest[source] = max(newest[source], message.iteration)
        if self.answer_bytes is not None:
            answer = Message(message.iteration, 8 * self.answer_bytes, answer=True)
            self._send(self.network.number[target, source], answer)

    def mean(self, period: int | None, least_s: float | None) -> Mean:
        """Of the part that repeats; where none does, of all but the first third.

        `period` is after how many iterations sends repeat; None for never. `least_s` is for workers
        of which none gets ever further ahead of another, so that in the long run all are as slow as
        the last: what an iteration takes at least, which shows only when queues are full.
        """
        begun = self.begins_s[self.compute_s.index(min(self.compute_s))]
        seen: dict[tuple[object, ...], list[Snapshot]] = {}
        history: list[Snapshot] = []
        most = MOST if period else max(3 * LEAST, DRAWN // len(self.begins_s))
        while len(history) < most or min(map(len, self.begins_s)) < LEAST:
            count = len(begun)
            self.advance()
            if len(begun) > count:
                now = self._snapshot()
                history.append(now)
                if period:
                    alike = seen.setdefault(self._state(period), [])
                    for before in alike:
                        if before.is_like(now):
                            return self._between(before, now)
                    alike.append(now)
            counts = [len(begins_s) for begins_s in self.begins_s]
            if sum(counts) > STUCK:
                last = counts.index(min(counts))
                raise UserError(f"worker {last} waits for ever while others go on; {MUST}")
        settled = history[len(history) // 3]
        found = self._between(settled, self._snapshot(), repeats=False)
        if least_s is None:
            return found
        behind = min(
            range(len(self.begins_s)),
            key=lambda one: (len(self.begins_s[one]), -self.begins_s[one][-1]),
        )
        together_s = max(least_s, found.iteration_s[behind])
        return self._split(found, [together_s] * len(found.iteration_s))

    def _state(self, period: int) -> tuple[object, ...]:
        """What is discrete of the present state."""
        first = self.progress[0].iteration
        return (
            first % period,
            self._busy,
            tuple(
                (
                    one.iteration - first,
                    one.undelivered,
                    end_s < math.inf,
                    *(newest and newest - first for newest in one.newest.values()),
                )
                for one, end_s in zip(self.progress, self._ends_s, strict=True)
            ),
            tuple(
                tuple((message.iteration - first, message.bits) for message in queue)
                for queue in self._queues
            ),
            tuple((link, message is None) for *_, link, message in sorted(self._later)),
        )

    def _snapshot(self) -> Snapshot:
        scale_s = max(self.compute_s)
        return Snapshot(
            self.now_s,
            tuple(len(begins_s) for begins_s in self.begins_s),
            tuple(self.transfer_s),
            tuple(self.idle_s),
            (
                *((end_s - self.now_s) / scale_s for end_s in self._ends_s if end_s < math.inf),
                *(
                    self._left[link] / self._queues[link][0].bits
                    for link, _ in self.network.rates(self._busy)
                ),
                *((at_s - self.now_s) / scale_s for at_s, *_ in sorted(self._later)),
            ),
        )

    def _between(self, one: Snapshot, two: Snapshot, *, repeats: bool = True) -> Mean:
        iteration_s = [
            (two.now_s - one.now_s if repeats else begins_s[to - 1] - begins_s[from_ - 1])
            / (to - from_)
            for begins_s, from_, to in zip(self.begins_s, one.begun, two.begun, strict=True)
        ]
        waited = Mean(
            iteration_s,
            [after - before for before, after in zip(one.transfer_s, two.transfer_s, strict=True)],
            [after - before for before, after in zip(one.idle_s, two.idle_s, strict=True)],
            repeats,
        )
        return self._split(waited, iteration_s)

    def _split(self, waited: Mean, iteration_s: list[float]) -> Mean:
        """What is not computing is waiting, of the two kinds in proportion as workers waited."""
        transfers_s, idles_s = [], []
        for worker, all_s in enumerate(iteration_s):
            transfer_s, idle_s = waited.transfer_s[worker], waited.idle_s[worker]
            share = transfer_s / (transfer_s + idle_s) if transfer_s else 0.0
            wait_s = max(0.0, all_s - self.compute_s[worker])
            transfers_s.append(share * wait_s)
            idles_s.append(wait_s - transfers_s[-1])
        return Mean(iteration_s, transfers_s, idles_s, waited.repeats)
