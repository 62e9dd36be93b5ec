"""What nodes send each other, and what carrying it took."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.clusters.checks import is_number


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a program.

    Parameters
    ----------
    sender
        The node that sends it.
    topic
        What it is about, in the program's words; `Context.receive` can wait for it.
    payload
        Anything. It is handed over as it is, without a copy: do not change it after sending.
    size_bytes
        What the links charge for, at least 0. The program chooses it, whatever the payload.
    tensor_bytes
        Sizes of the tensors it consists of, for links on which these matter (`Link.tensor_s`,
        `Link.split_bytes`); they sum to `size_bytes`. By default one lump that pays no more
        than its bytes.
    control
        A few bits of a protocol, such as a request whose answer pays for the round trip: it
        waits its turn on the link but costs no overhead, and has no size.

    Raises
    ------
    ValueError
        A size that is no number, negative, not finite, or not the sum of the tensors'; a control
        message with a size; a topic that is no text.
    """

    sender: int
    topic: str
    payload: Any = None
    size_bytes: float = 0.0
    tensor_bytes: tuple[float, ...] = ()
    control: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str):
            raise ValueError(
                f"the topic of a message is {self.topic!r}; give text, and what it carries as its "
                "payload: Message(sender, topic, payload, size_bytes)"
            )
        size = self.size_bytes  # most often a float: a quick look spares most messages a call
        if not ((type(size) is float and 0 <= size < math.inf) or _is_size(size)):
            raise ValueError(
                f"message {self.topic!r} has a size of {self.size_bytes!r} bytes; sizes are "
                "numbers, finite and not negative"
            )
        if self.control and self.size_bytes:
            raise ValueError(
                f"control message {self.topic!r} has {self.size_bytes} bytes; what has a size is "
                "no control message"
            )
        if type(self.tensor_bytes) is not tuple:
            several = isinstance(self.tensor_bytes, Iterable)
            sizes = tuple(self.tensor_bytes) if several else (self.tensor_bytes,)
            object.__setattr__(self, "tensor_bytes", sizes)
        if self.tensor_bytes:
            if not all(map(_is_size, self.tensor_bytes)):
                raise ValueError(
                    f"message {self.topic!r} has tensors of {self.tensor_bytes} bytes; sizes are "
                    "numbers, finite and not negative"
                )
            total = sum(self.tensor_bytes)
            if not math.isclose(total, self.size_bytes, rel_tol=1e-9):
                raise ValueError(
                    f"message {self.topic!r} has tensors of {total} bytes together, not its "
                    f"size of {self.size_bytes}"
                )


def _is_size(given: Any) -> bool:
    return is_number(given) and 0 <= given < math.inf


class Transfer(NamedTuple):
    """What a link did with one message: who, what, and from when to when it was busy with it.

    `tensors` is how many the message was of, as far as it said so.
    """

    source: int
    target: int
    topic: str
    size_bytes: float
    start_s: float
    end_s: float
    tensors: int = 0
