"""What nodes send each other, and what carrying it took."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple


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
        A size that is negative, not finite, or not the sum of the tensors'; a control message
        with a size.
    """

    sender: int
    topic: str
    payload: Any = None
    size_bytes: float = 0.0
    tensor_bytes: tuple[float, ...] = ()
    control: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.size_bytes < math.inf:
            raise ValueError(
                f"message {self.topic!r} has a size of {self.size_bytes} bytes; sizes are finite "
                "and not negative"
            )
        if self.control and self.size_bytes:
            raise ValueError(
                f"control message {self.topic!r} has {self.size_bytes} bytes; what has a size is "
                "no control message"
            )
        if self.tensor_bytes:
            if not all(0 <= size < math.inf for size in self.tensor_bytes):
                raise ValueError(
                    f"message {self.topic!r} has tensors of {self.tensor_bytes} bytes; sizes are "
                    "finite and not negative"
                )
            total = sum(self.tensor_bytes)
            if not math.isclose(total, self.size_bytes, rel_tol=1e-9):
                raise ValueError(
                    f"message {self.topic!r} has tensors of {total} bytes together, not its "
                    f"size of {self.size_bytes}"
                )


class Transfer(NamedTuple):
    """What a link did with one message: who, what, and from when to when it was busy with it."""

    source: int
    target: int
    topic: str
    size_bytes: float
    start_s: float
    end_s: float
