"""Messages between nodes, and their transfers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.checks import check_truth, is_number, listed, whole
from workbench.errors import UserError

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

    Raises
    ------
    ValueError
        A size that is no number, negative, too large, or not the sum of the tensors'; a control
        message with a size; a sender that is no index, a topic that is no text.
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
        control: object = self.control
        if type(control) is not bool:
            check_truth(f"control of message {self.topic!r}", control)
        if not isinstance(self.topic, str):
            raise UserError(
                f"the topic of a message is {self.topic!r}; give text, and what it carries as its "
                "payload: Message(sender, topic, payload, size_bytes)"
            )
        size = self.size_bytes  # most often a float: a quick look spares most messages a call
        if not ((type(size) is float and 0 <= size <= MOST_BYTES) or _is_size(size)):
            raise UserError(
                f"message {self.topic!r} has a size of {self.size_bytes!r} bytes; sizes are "
                f"numbers, not negative, at most {MOST_BYTES:g}"
            )
        if self.control and self.size_bytes:
            raise UserError(
                f"control message {self.topic!r} has {self.size_bytes} bytes; what has a size is "
                "no control message"
            )
        if type(self.tensor_bytes) is not tuple:
            value: object = self.tensor_bytes
            sizes = [value] if is_number(value) else value
            instead = "give the size of each tensor in bytes, such as (4e6, 1e3)"
            object.__setattr__(self, "tensor_bytes", listed("tensor_bytes", sizes, instead))
        if self.tensor_bytes:
            if not all(map(_is_size, self.tensor_bytes)):
                raise UserError(
                    f"message {self.topic!r} has tensors of {self.tensor_bytes} bytes; sizes are "
                    f"numbers, not negative, at most {MOST_BYTES:g}"
                )
            total = sum(self.tensor_bytes)
            if not math.isclose(total, self.size_bytes, rel_tol=1e-9):
                raise UserError(
                    f"message {self.topic!r} has tensors of {total} bytes together, not its "
                    f"size of {self.size_bytes}"
                )


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
