"""Telling a peer that is slow from one that is gone: signs of life, a few times a patience."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.decentralised.life import Life

BEATS = 3  # in a patience, so that one or two may get lost


class Pulse:
    """Signs of life that a node gives, and those that it hears; none where nothing gets lost.

    A sign follows on its link what was sent before it. So what it says to have been sent has
    arrived by then, or is lost.

    Attributes
    ----------
    sent_epoch
        The newest epoch whose model this node has sent.
    their_epochs
        The same of each peer, as far as is known; -1 at first.
    """

    def __init__(self, life: Life, targets: Sequence[int], sources: Iterable[int]) -> None:
        self._context, self._targets = life.context, targets
        self._patience_s = life.job.setup.patience_s
        self._heard_s = dict.fromkeys(sources, self._context.now_s())
        self.their_epochs = dict.fromkeys(self._heard_s, -1)
        self.sent_epoch = -1

    def start(self) -> None:
        """Give and hear signs from now on."""
        if self._patience_s is not None and (self._targets or self._heard_s):
            self._context.spawn(self._beat(self._patience_s / BEATS))
            self._context.spawn(self._listen())

    async def _beat(self, every_s: float) -> None:
        context = self._context
        while True:
            for peer in self._targets:
                context.send(peer, Message(context.node, "alive", self.sent_epoch, control=True))
            await context.sleep(every_s)

    async def _listen(self) -> None:
        while True:
            sign = await self._context.receive("alive")
            self.hear(sign.sender, sign.payload)

    def hear(self, peer: int, epoch: int = -1) -> None:
        """Something came from a peer just now: its model of an epoch, or word of having sent it."""
        if peer in self._heard_s:
            self._heard_s[peer] = self._context.now_s()
            self.their_epochs[peer] = max(epoch, self.their_epochs[peer])

    def left_s(self, peer: int) -> float:
        """Seconds for which silence may last; 0 for a peer that counts as gone."""
        if self._patience_s is None:
            return math.inf
        return max(0.0, self._heard_s[peer] + self._patience_s - self._context.now_s())
