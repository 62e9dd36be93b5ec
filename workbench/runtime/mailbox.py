"""Messages that have arrived at a node, and those who wait for one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import simpy

    from workbench.runtime.kernel import Kernel
    from workbench.runtime.messages import Message

Key = tuple[str | None, int | None]
"""Topic and sender; None for any."""

Kind = tuple[bool, bool]
"""Whether a topic, and whether a sender is asked for."""

_ANY: Key = (None, None)
_FEW = 8


@dataclass(slots=True, eq=False)
class Wait:
    """Waiting for a message since `since_s`, of a topic or sender, or any."""

    event: simpy.Event
    topic: str | None
    sender: int | None
    since_s: float
    timer: simpy.Event | None = None
    number: int = -1  # where there are many

    def wanted(self, names: Sequence[str]) -> str:
        """What is waited for, as text after "a message"; `names` are those of the nodes."""
        about = "" if self.topic is None else f" {self.topic!r}"
        return about + ("" if self.sender is None else f" from {names[self.sender]}")


class Mailbox:
    """Unread messages in order of arrival, and waits in the order in which they began.

    At no time does an unread message fit a wait. A few of either are looked through; where there
    are many, they have indices by topic and sender, so that the cost of finding one does not grow.
    """

    __slots__ = ("_env", "_indices", "_numbers", "_unread", "_waits", "_wanted")

    def __init__(self, env: Kernel) -> None:
        self._env = env
        self._numbers = count()
        self._unread: OrderedDict[int, Message] = OrderedDict()
        self._indices: dict[Kind, dict[Key, OrderedDict[int, Message]]] = {}
        self._waits: dict[Wait, None] = {}
        self._wanted: dict[Key, OrderedDict[Wait, None]] | None = None

    @property
    def unread(self) -> list[Message]:
        """In order of arrival."""
        return list(self._unread.values())

    @property
    def waits(self) -> list[Wait]:
        """In the order in which they began."""
        return list(self._waits)

    def deliver(self, message: Message, *, first: bool = False) -> None:
        """Pass a message to who has waited longest for it, or keep it; as the first, if asked."""
        waits = self._waits
        if waits:
            topic, sender = message.topic, message.sender
            if self._wanted is not None:
                wait = self._longest(topic, sender)
            else:
                for wait in waits:
                    if (wait.topic is None or wait.topic == topic) and (
                        wait.sender is None or wait.sender == sender
                    ):
                        break
                else:
                    wait = None
            if wait is not None:
                self.end(wait)
                wait.event.succeed(message)
                return
        self._keep(message, first)

    def _longest(self, topic: str, sender: int) -> Wait | None:
        assert self._wanted is not None
        first = [
            next(iter(queue))
            for key in ((topic, sender), (topic, None), (None, sender), _ANY)
            if (queue := self._wanted.get(key))
        ]
        return min(first, key=lambda wait: wait.number, default=None)

    def take(self, topic: str | None, sender: int | None) -> Message | None:
        """Take the first unread message that fits; None where there is none."""
        number = self._first(topic, sender)
        if number is None:
            return None
        message = self._unread.pop(number)
        if not self._unread:
            self._indices.clear()
        for kind, index in self._indices.items():
            key = _key(kind, message)
            del index[key][number]
            if not index[key]:
                del index[key]
        return message

    def _first(self, topic: str | None, sender: int | None) -> int | None:
        unread = self._unread
        if topic is None and sender is None:
            return next(iter(unread), None)
        kind = topic is not None, sender is not None
        if kind not in self._indices:
            if len(unread) <= _FEW:
                for number, message in unread.items():
                    if (topic is None or topic == message.topic) and (
                        sender is None or sender == message.sender
                    ):
                        return number
                return None
            index = self._indices[kind] = {}
            for number, message in unread.items():
                index.setdefault(_key(kind, message), OrderedDict())[number] = message
        return next(iter(self._indices[kind].get((topic, sender), ())), None)

    def begin(self, wait: Wait) -> None:
        """Begin a wait."""
        waits = self._waits
        waits[wait] = None
        if self._wanted is not None:
            self._want(wait)
        elif len(waits) > _FEW:
            self._wanted = {}
            for one in waits:
                self._want(one)

    def _want(self, wait: Wait) -> None:
        assert self._wanted is not None
        wait.number = next(self._numbers)
        self._wanted.setdefault((wait.topic, wait.sender), OrderedDict())[wait] = None

    def end(self, wait: Wait) -> None:
        """End a wait."""
        del self._waits[wait]
        if self._wanted is not None:
            same = self._wanted[wait.topic, wait.sender]
            del same[wait]
            if not same:
                del self._wanted[wait.topic, wait.sender]
            if not self._waits:
                self._wanted = None
        if wait.timer is not None:
            self._env.cancel(wait.timer)

    def give_up(self, wait: Wait) -> None:
        """End a wait whose coroutine is cut off; a message just delivered to it goes on."""
        if not wait.event.triggered:
            if wait in self._waits:  # not forgotten with all others
                self.end(wait)
        elif wait.event.ok:
            self.deliver(cast("Message", wait.event.value), first=True)

    def end_waits(self) -> None:
        """End all waits."""
        for wait in self.waits:
            self.end(wait)

    def _keep(self, message: Message, first: bool) -> None:
        number, unread = next(self._numbers), self._unread
        unread[number] = message
        if first:
            unread.move_to_end(number, last=False)
        for kind, index in self._indices.items():
            queue = index.setdefault(_key(kind, message), OrderedDict())
            queue[number] = message
            if first:
                queue.move_to_end(number, last=False)


def _key(kind: Kind, message: Message) -> Key:
    return message.topic if kind[0] else None, message.sender if kind[1] else None
