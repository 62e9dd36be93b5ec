"""Rules for when a worker may begin its next iteration: the paper's `synch_training` (Sec. 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.decentralised.job import Progress, Synchronisation, asynchronous
from workbench.utils.checks import at_least, check_fields

__all__ = [
    "BOUNDED",
    "MUST",
    "Bounded",
    "Progress",
    "Synchronisation",
    "asynchronous",
    "delivered",
    "synchronous",
]

MUST = "synch_training must allow the next iteration once everything has arrived"


def synchronous(progress: Progress) -> bool:
    """Wait for what all peers have to send of this iteration."""
    return all(newest >= progress.iteration for newest in progress.newest.values())


def delivered(progress: Progress) -> bool:
    """Wait until all peers have what was sent to them."""
    return not progress.undelivered


@dataclass(frozen=True)
class Bounded:
    """Be at most `staleness` iterations ahead of what arrived of any peer."""

    staleness: int = field(default=5, metadata=at_least(0))

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, progress: Progress) -> bool:
        """Whether nothing older would be missing."""
        least = progress.iteration - self.staleness
        return all(newest >= least for newest in progress.newest.values())


BOUNDED = Bounded()
