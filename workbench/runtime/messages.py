"""Messages between nodes, their transfers, and the mailboxes in which they wait to be read."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from workbench.utils.checks import UserError, check_truth, is_number, listed, whole

if TYPE_CHECKING:
    import simpy

    from workbench.runtime.kernel import Kernel

MOST_BYTES = 1e30


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a program.

    Parameters
    ----------
    sender
        The node that sends it.
    topic
        Any text; `Context.receive` can wait for it.
    payload
        Anything. It is passed on without a copy: do not change it after sending.
    size_bytes
        What the links charge for, from 0 to 1e30. The program chooses it, whatever the payload.
    tensor_bytes
        Sizes of the tensors it consists of, for links on which these matter (`Link.tensor_s`,
        `Link.split_bytes`); they sum to `size_bytes`. By default one lump that pays no more
        than its bytes.
    control
        A few bits of a protocol, such as a request whose answer pays for the round trip: it
        queues on the link like any other but costs no overhead, and has no size.
    """

    sender: int
    topic: str
    payload: Any = None
    size_bytes: float = 0.0
    tensor_bytes: tuple[float, ...] = ()
    control: bool = False

    def __post_init__(self) -> None:
        if type(self.sender) is not int and whole(self.sender) is None:
            raise UserError(
                f"the sender of a message is {self.sender!r}; give the node's index, as in "
                "Message(context.node, topic, payload, size_bytes)"
            )
        if type(cast(object, self.control)) is not bool:
            check_truth(f"control of message {self.topic!r}", self.control)
        if not isinstance(self.topic, str):
            raise UserError(
                f"the topic of a message is {self.topic!r}; give text, and what it carries as its "
                "payload: Message(sender, topic, payload, size_bytes)"
            )
        size = self.size_bytes  # most often a float: a quick look spares most messages a call
        if not ((type(size) is float and 0 <= size <= MOST_BYTES) or _is_size(size)):
            raise UserError(f"message {self.topic!r} has a size of {size!r} bytes; {_SIZES}")
        if self.control and size:
            raise UserError(
                f"control message {self.topic!r} has {size} bytes; a control message has no size"
            )
        if type(self.tensor_bytes) is not tuple:
            value: object = self.tensor_bytes
            sizes = [value] if is_number(value) else value
            instead = "give the size of each tensor in bytes, such as (4e6, 1e3)"
            object.__setattr__(self, "tensor_bytes", listed("tensor_bytes", sizes, instead))
        if self.tensor_bytes:
            if not all(map(_is_size, self.tensor_bytes)):
                raise UserError(
                    f"message {self.topic!r} has tensors of {self.tensor_bytes} bytes; {_SIZES}"
                )
            total = sum(self.tensor_bytes)
            if not math.isclose(total, size, rel_tol=1e-9):
                raise UserError(
                    f"message {self.topic!r} has tensors of {total} bytes together, not its "
                    f"size of {size}"
                )


_SIZES = f"sizes are numbers, not negative, at most {MOST_BYTES:g}"


def _is_size(value: Any) -> bool:
    return is_number(value) and 0 <= value <= MOST_BYTES


class Transfer(NamedTuple):
    """One message over a link, and the seconds in which the link was busy with it.

    `tensors` is how many the message consisted of; 0 if it did not say.
    """

    source: int
    target: int
    topic: str
    size_bytes: float
    start_s: float
    end_s: float
    tensors: int = 0


Key = tuple[str | None, int | None]
"""Topic and sender; None for any."""

Kind = tuple[bool, bool]
"""Whether a topic, and whether a sender is asked for."""

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
        if self._waits:
            topic, sender = message.topic, message.sender
            if self._wanted is not None:
                wait = self._longest(topic, sender)
            else:
                for wait in self._waits:
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
        number, unread = next(self._numbers), self._unread
        unread[number] = message
        if first:
            unread.move_to_end(number, last=False)
        for kind, index in self._indices.items():
            queue = index.setdefault(_key(kind, message), OrderedDict())
            queue[number] = message
            if first:
                queue.move_to_end(number, last=False)

    def _longest(self, topic: str, sender: int) -> Wait | None:
        assert self._wanted is not None
        first = [
            next(iter(queue))
            for key in ((topic, sender), (topic, None), (None, sender), (None, None))
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
            for other in waits:
                self._want(other)

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
            self.deliver(cast(Message, wait.event.value), first=True)

    def end_waits(self) -> None:
        """End all waits."""
        for wait in self.waits:
            self.end(wait)


def _key(kind: Kind, message: Message) -> Key:
    return message.topic if kind[0] else None, message.sender if kind[1] else None
