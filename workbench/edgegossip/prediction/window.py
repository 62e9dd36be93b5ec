"""Readings of the counters, gathered until they are enough for a report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.edgegossip.prediction.contention import Contention, Counters, between


@dataclass(frozen=True)
class Window:
    """From the first reading to the latest.

    Attributes
    ----------
    first, latest
        Readings at its ends.
    readings
        How many came after the first.
    """

    first: Counters
    latest: Counters
    readings: int = 0

    @classmethod
    def start(cls, counters: Counters) -> Window:
        """Begin with a reading."""
        return cls(counters, counters)

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.latest.at_s - self.first.at_s

    def mean(self) -> Contention:
        """Mean contention, from the ends alone.

        That is the mean of what each reading gave, weighted by time, where no difference was
        negative; and over a minute a late write is set off against what its process said
        earlier, as it would not be second by second.

        Raises
        ------
        ValueError
            It has one reading only.
        """
        return between(self.first, self.latest)


def step(window: Window, counters: Counters) -> Window:
    """Return the window with a further reading."""
    return replace(window, latest=counters, readings=window.readings + 1)
