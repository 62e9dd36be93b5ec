"""Differences between trainings of the same seeds, with what chance leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple


class Mean(NamedTuple):
    """A mean over seeds.

    Attributes
    ----------
    value
        The mean.
    error
        Its standard error; None of a single seed.
    """

    value: float
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Return the mean of differences, one for each seed."""
        error = stdev(values) / sqrt(len(values)) if len(values) > 1 else None
        return cls(fmean(values), error)

    @property
    def within_noise(self) -> bool:
        """Whether it is smaller than its error, so that chance alone may have made it."""
        return self.error is not None and abs(self.value) < self.error

    def __str__(self) -> str:
        """Show it to a hundredth: ``+0.12 ± 0.30``."""
        return f"{self.value:+.2f} " + (
            "(one seed)" if self.error is None else f"± {self.error:.2f}"
        )
