"""Heartbeats, by which a node knows whether a silent peer is slow or gone, and what got lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context

BEATS = 3  # per patience_s, so that one or two may get lost
QUIET = 3  # times patience_s: when all have only waited for so long, nothing comes any more


class Beat(NamedTuple):
    """Content of a heartbeat."""

    sent: Mapping[str, int]  # by topic, the newest turn of which all was sent
    at_s: float  # when it was sent
    answers_s: float  # when the receiver's newest heartbeat was sent that had come by then
    active_s: float  # when anybody, as far as its sender knows, last did more than wait


class Heartbeat:
    """Heartbeats that a node sends and receives, if messages may get lost.

    A heartbeat follows on its link what was sent before it: what it says was sent has arrived by
    then, or is lost. So has a peer's immediate answer once its heartbeat answers a later one.
    """

    def __init__(
        self,
        context: Context,
        patience_s: float,
        targets: Sequence[int],
        sources: Iterable[int],
    ) -> None:
        self._context, self._patience_s, self._targets = context, patience_s, targets
        self.sources = tuple(sources)
        self._heard_s = dict.fromkeys(self.sources, self._context.now_s())
        self._newest: dict[int, dict[str, int]] = {peer: {} for peer in self.sources}
        self._came_s = dict.fromkeys(targets, -1.0)  # by peer, `at_s` of its newest heartbeat
        self._answered_s = dict.fromkeys(self.sources, -1.0)  # by peer, its newest `answers_s`
        self._active_s, self._waiting = 0.0, False
        self.sent: dict[str, int] = {}  # as in a `Beat`

    def start(self) -> None:
        """Send from now on, and count silence from now on."""
        self._heard_s = dict.fromkeys(self.sources, self._context.now_s())
        if self._patience_s < math.inf and self._targets:
            self._context.spawn(self._send())

    async def _send(self) -> None:
        context = self._context
        while True:
            now_s = context.now_s()
            if not self._waiting:
                self._active_s = now_s
            for peer in self._targets:
                beat = Beat(dict(self.sent), now_s, self._came_s[peer], self._active_s)
                context.send(peer, Message(context.node, "heartbeat", beat, control=True))
            await context.sleep(self._patience_s / BEATS)

    def take(self, message: Message) -> None:
        """Take in a heartbeat."""
        peer, beat = message.sender, message.payload
        for topic, turn in beat.sent.items():
            self.note(peer, topic, turn)
        if peer in self._came_s:
            self._came_s[peer] = beat.at_s
        self._answered_s[peer] = beat.answers_s
        self._active_s = max(self._active_s, beat.active_s)

    def hear(self, peer: int) -> None:
        """Note that a message of a peer has come just now."""
        if peer in self._heard_s:
            self._heard_s[peer] = self._context.now_s()

    def note(self, peer: int, topic: str, turn: int) -> None:
        """Note that a peer has sent all of a turn."""
        self._newest[peer][topic] = max(turn, self.newest(peer, topic))

    def newest(self, peer: int, topic: str) -> int:
        """Newest turn of which a peer has sent all; -1 before any, or if it is not heard."""
        return self._newest.get(peer, {}).get(topic, -1)

    def has_answered(self, peer: int, asked_s: float) -> bool:
        """Whether an answer to what a peer was sent by then has arrived, or is lost."""
        return self._answered_s[peer] > asked_s

    def note_waiting(self, *, waiting: bool) -> None:
        """Note that from now on the node only waits, or that it no longer does."""
        self._waiting, self._active_s = waiting, self._context.now_s()

    def left_s(self, peer: int) -> float:
        """Seconds until a silent peer counts as gone; 0 once it does."""
        return max(0.0, self._heard_s[peer] + self._patience_s - self._context.now_s())

    def next_gone_s(self) -> float:
        """Seconds until the next source counts as gone; 0 once all do."""
        return min(filter(None, map(self.left_s, self.sources)), default=0.0)

    def quiet_s(self) -> float:
        """Seconds until nothing comes any more, if all only wait; 0 once it does not."""
        return max(0.0, self._active_s + QUIET * self._patience_s - self._context.now_s())
