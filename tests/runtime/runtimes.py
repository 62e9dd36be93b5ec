"""Runtimes that run the same programs: simulated and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from workbench.runtime import Run

EARLY_S = 1e-6
"""By what less than its deadline the clock may read, as it rounds."""


@dataclass(frozen=True)
class Runtime:
    """A way to run programs, and what its clock promises.

    Virtual time is exact. A real clock is never early: what takes a time by the model takes it at
    least. It may be late by any amount on a busy machine, which no test holds against it.
    """

    run: Callable[..., Run]
    exact: bool

    def __call__(self, *args: Any, **options: Any) -> Run:
        return self.run(*args, **options)

    def agrees(self, times_s: Sequence[float] | float, expected_s: Sequence[float] | float) -> bool:
        """Whether times are those expected, or no earlier and in the same order."""
        if isinstance(times_s, int | float):
            times_s, expected_s = [times_s], [expected_s]  # type: ignore[list-item]
        assert isinstance(expected_s, Sequence)
        if self.exact:
            return list(times_s) == pytest.approx(list(expected_s), rel=1e-12)
        pairs = sorted(zip(expected_s, times_s, strict=True))
        in_order = all(one[1] <= other[1] for one, other in pairwise(pairs) if one[0] < other[0])
        return in_order and all(time_s >= least_s - EARLY_S for least_s, time_s in pairs)
