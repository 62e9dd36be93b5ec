"""Messages that arrived at a node, and who waits there for which."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import simpy

    from workbench.runtime.messages import Message


@dataclass(slots=True, eq=False)
class Wait:
    """Someone who waits for a message since `since_s`, of a topic or sender, or any."""

    event: simpy.Event
    topic: str | None
    sender: int | None
    since_s: float
    timer: simpy.Event | None = None

    def end(self) -> None:
        """Let the timer, if any, pass unheard."""
        if self.timer is not None and self.timer.callbacks is not None:
            self.timer.callbacks.clear()

    def wants(self, message: Message) -> bool:
        """Whether the message is one of those waited for."""
        return (self.topic is None or self.topic == message.topic) and (
            self.sender is None or self.sender == message.sender
        )

    def wanted(self, names: Sequence[str]) -> str:
        """What is waited for, in words after "a message"; `names` are those of the nodes."""
        about = "" if self.topic is None else f" {self.topic!r}"
        return about + ("" if self.sender is None else f" from {names[self.sender]}")


class Mailbox:
    """Unread messages in order of arrival; waits in the order in which they began.

    At no time does an unread message fit a wait.
    """

    __slots__ = ("unread", "waits")

    def __init__(self) -> None:
        self.unread: deque[Message] = deque()
        self.waits: list[Wait] = []

    def deliver(self, message: Message) -> None:
        """Hand a message to the first who waits for it, or keep it."""
        for index, wait in enumerate(self.waits):
            if wait.wants(message):
                del self.waits[index]
                if wait.timer is not None:
                    wait.end()
                wait.event.succeed(message)
                return
        self.unread.append(message)

    def take(self, topic: str | None, sender: int | None) -> Message | None:
        """Take the first unread message that fits; None where there is none."""
        unread = self.unread
        if not unread:
            return None
        if topic is None and sender is None:
            return unread.popleft()
        for index, message in enumerate(unread):
            if (topic is None or topic == message.topic) and (
                sender is None or sender == message.sender
            ):
                del unread[index]
                return message
        return None

    def end_waits(self) -> None:
        """Forget who waits."""
        for wait in self.waits:
            wait.end()
        self.waits.clear()
