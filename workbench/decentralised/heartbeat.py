"""Heartbeats, by which a node knows whether a silent peer is slow or gone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context

BEATS = 3  # per patience_s, so that one or two may get lost


class Heartbeat:
    """Heartbeats that a node sends and receives; none where nothing gets lost.

    A heartbeat follows on its link what was sent before it: the model that it says was sent has
    arrived by then, or is lost.
    """

    def __init__(
        self,
        context: Context,
        patience_s: float,
        targets: Sequence[int],
        sources: Iterable[int],
    ) -> None:
        self._context, self._patience_s, self._targets = context, patience_s, targets
        self._heard_s = dict.fromkeys(sources, self._context.now_s())
        self.their_epochs = dict.fromkeys(self._heard_s, -1)  # newest model that each has sent
        self.sent_epoch = -1

    def start(self) -> None:
        """Send and receive from now on."""
        if self._patience_s < math.inf and (self._targets or self._heard_s):
            self._context.spawn(self._beat())
            self._context.spawn(self._listen())

    async def _beat(self) -> None:
        context = self._context
        while True:
            beat = Message(context.node, "heartbeat", self.sent_epoch, control=True)
            for peer in self._targets:
                context.send(peer, beat)
            await context.sleep(self._patience_s / BEATS)

    async def _listen(self) -> None:
        while True:
            beat = await self._context.receive("heartbeat")
            self.hear(beat.sender, beat.payload)

    def hear(self, peer: int, epoch: int = -1) -> None:
        """Note that a peer sent something just now: its model of an epoch, or a heartbeat."""
        if peer in self._heard_s:
            self._heard_s[peer] = self._context.now_s()
            self.their_epochs[peer] = max(epoch, self.their_epochs[peer])

    def left_s(self, peer: int) -> float:
        """Seconds until a silent peer counts as gone; 0 once it does."""
        return max(0.0, self._heard_s[peer] + self._patience_s - self._context.now_s())

    def next_gone_s(self, peers: Iterable[int]) -> float:
        """Seconds until the next of these peers counts as gone; 0 once all do."""
        return min(filter(None, map(self.left_s, peers)), default=0.0)
