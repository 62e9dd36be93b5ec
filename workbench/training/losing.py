"""Faults that a training cannot get over when everybody waits for everybody."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.runtime import Crash, Fault, LinkDown, Lossy
from workbench.runtime.faults import check_faults

LOSING = Crash | LinkDown | Lossy
"""Faults that lose messages, or all that a node holds. The others only cost time."""


def check_losing_nothing(faults: Iterable[Fault], otherwise: str) -> tuple[Fault, ...]:
    """Return faults as a tuple, if none loses what others would wait for without end.

    Parameters
    ----------
    faults
        As for `workbench.runtime.simulate`.
    otherwise
        What to do about one that does, in words.

    Raises
    ------
    ValueError
        One does; or something is no fault.
    """
    found = check_faults(faults)
    for fault in found:
        if isinstance(fault, LOSING):
            raise ValueError(
                f"{fault} loses messages that others would wait for without end; {otherwise}"
            )
    return found


GOING_ON = (
    "give a SlowDown, or the link a bandwidth Schedule with zeros for an outage that only delays; "
    "or train with gossip or edgegossip, where with patience_s=... the others go on"
)
"""What to do about such a fault in a system that has no way to go on without somebody."""
