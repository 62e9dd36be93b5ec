"""What goes wrong during a run, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.clusters.cluster import Name


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at a time; see its kinds below."""


@dataclass(frozen=True)
class Crash(Fault):
    """A node stops at `at_s`: its program ends at once, its messages, sent and unread, are gone.

    What is on its way out of its queues is lost, and so is what reaches it until it restarts.
    """

    node: Name
    at_s: float

    def __post_init__(self) -> None:
        _instant(self, self.at_s)


@dataclass(frozen=True)
class Restart(Fault):
    """A crashed node comes back at `at_s`, and its program starts from the beginning."""

    node: Name
    at_s: float

    def __post_init__(self) -> None:
        _instant(self, self.at_s)


@dataclass(frozen=True)
class SlowDown(Fault):
    """A node computes `factor` times slower between two times."""

    node: Name
    from_s: float
    to_s: float
    factor: float

    def __post_init__(self) -> None:
        _interval(self, self.from_s, self.to_s)
        if not 0 < self.factor < math.inf:
            raise ValueError(f"factor of {self} must be above 0 and finite: how many times slower")


@dataclass(frozen=True)
class LinkDown(Fault):
    """A link carries nothing between two times: what it carries, queues or is given is lost.

    For an outage that only delays, give the link a bandwidth `Schedule` with zeros.
    """

    source: Name
    target: Name
    from_s: float
    to_s: float = math.inf

    def __post_init__(self) -> None:
        _interval(self, self.from_s, self.to_s)


@dataclass(frozen=True)
class Lossy(Fault):
    """A link carries messages but loses each with a probability, drawn from the run's seed."""

    source: Name
    target: Name
    probability: float
    from_s: float = 0.0
    to_s: float = math.inf

    def __post_init__(self) -> None:
        _interval(self, self.from_s, self.to_s)
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability of {self} must be between 0 and 1")


def _instant(fault: object, at_s: float) -> None:
    if not 0 <= at_s < math.inf:
        raise ValueError(f"{fault}: at_s must be finite and not negative")


def _interval(fault: object, from_s: float, to_s: float) -> None:
    if not (0 <= from_s < math.inf and from_s < to_s):
        raise ValueError(f"{fault}: from_s must be finite, not negative, and before to_s")
