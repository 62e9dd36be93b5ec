"""A capacity that changes over time in steps, with exact sums and their exact inverse."""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from workbench.utils.checks import UserError, check_number, check_range, is_number, listed
from workbench.utils.files import read_text

MOST_S = 1e12
"""Seconds at most, which floats then know to a thousandth."""

LEAST, MOST = 1e-12, 1e18
"""Bounds of a value that is not 0: bits per second, or a speed."""

MOST_SAMPLES = 10_000_000
"""Values that `Schedule.sampled` takes at most: more fill the memory."""

ROUNDING = 4 * sys.float_info.epsilon
"""How far a time may be off, over itself, as a sum of a few times that are rounded."""


@dataclass(frozen=True)
class Schedule:
    """Piecewise constant over time: a value from each start on, the last one for ever.

    Parameters
    ----------
    starts_s
        When each value begins, in seconds, ascending; the first is 0.
    values
        In the unit of what is scheduled (bits per second, or a speed). A 0 halts service until
        the next value; the last must be above 0.
    """

    starts_s: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, what in (("starts_s", "a start"), ("values", "a value")):
            numbers = listed(name, getattr(self, name), "give several, or use Schedule.of")
            checked = tuple(check_number(f"{what} of the schedule", x) for x in numbers)
            object.__setattr__(self, name, checked)
        starts_s, values = self.starts_s, self.values
        if not values or len(starts_s) != len(values):
            raise UserError(
                f"the schedule has {len(starts_s)} starts for {len(values)} values; give at least "
                "one (start_s, value)"
            )
        for start_s, value in zip(starts_s, values, strict=True):
            if not 0 <= start_s <= MOST_S:
                raise UserError(
                    f"a piece of the schedule starts at {start_s} s; give 0 to {MOST_S:g} s"
                )
            if not (value == 0 or LEAST <= value <= MOST):
                raise UserError(
                    f"the schedule is {value} from {start_s} s on; values are 0, or from "
                    f"{LEAST:g} to {MOST:g}"
                )
        if starts_s[0] != 0:
            raise UserError(f"the schedule starts at {starts_s[0]} s; it must start at 0 s")
        for before_s, after_s in pairwise(starts_s):
            if not before_s < after_s:
                raise UserError(
                    f"the schedule is not in order: {after_s} s comes after {before_s} s; "
                    "every start must be later than the one before"
                )
        if values[-1] == 0:
            raise UserError(
                f"the schedule is 0 for ever from {starts_s[-1]} s on, so what waits for it "
                "would never end; let its last value be above 0"
            )

    @classmethod
    def of(cls, value: float | Schedule | Iterable[tuple[float, float]]) -> Schedule:
        """Make a schedule of a number or of (start_s, value) pairs; return a schedule as it is.

        The rows of a polars frame of two columns, start and value, are such pairs.
        """
        if isinstance(value, Schedule):
            return value
        if is_number(value):
            return cls((0.0,), (value,))  # type: ignore[arg-type]
        pairs = _pairs(value)
        if pairs is None:
            raise UserError(
                f"{value!r} is not a schedule; give pairs of (start_s, value), such as [(0, 1e6), "
                "(5, 2e6)], or a number; Schedule.sampled takes functions, Schedule.from_csv files"
            )
        return cls(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))

    @classmethod
    def from_csv(cls, path: Path | str, *, scale: float = 1.0) -> Schedule:
        """Read a recorded trace: two columns, start in seconds and value, maybe with a heading.

        Parameters
        ----------
        path
            The file, text in UTF-8.
        scale
            Factor on every value, above 0: 1e6 for a file in Mbit/s.
        """
        if not isinstance(path, str | Path):
            raise UserError(f"path is {path!r}; give a file, such as 'trace.csv'")
        if not 0 < check_number("scale", scale) < math.inf:
            raise UserError(f"scale is {scale}; it must be above 0 and finite")
        pairs = [(start_s, value * scale) for start_s, value in _read_pairs(path)]
        return capacity(str(path), pairs)

    @classmethod
    def sampled(
        cls, function: Callable[[float], float], *, step_s: float, end_s: float
    ) -> Schedule:
        """Sample a function of time at 0, `step_s`, ... before `end_s`; each value holds a step."""
        for name, seconds in (("step_s", step_s), ("end_s", end_s)):
            check_range(name, seconds, LEAST, MOST_S)
        if not callable(function):
            raise UserError(f"{function!r} is not a function of time; for values, use Schedule.of")
        if end_s / step_s > MOST_SAMPLES:
            raise UserError(
                f"{end_s:g} s in steps of {step_s:g} s make {end_s / step_s:,.0f} values; sample "
                f"at most {MOST_SAMPLES:,}: in longer steps, or up to an earlier end"
            )
        starts_s = [index * step_s for index in range(math.ceil(end_s / step_s))]
        return cls(tuple(starts_s), tuple(function(start_s) for start_s in starts_s))

    @property
    def constant(self) -> float | None:
        """The value, where it never changes; else None."""
        return self.values[0] if len(self.values) == 1 else None

    def at(self, at_s: float) -> float:
        """Value from `at_s` on; times below 0 are refused, here and below."""
        if not at_s >= 0:
            raise UserError(f"{at_s} s is no time of a schedule, which starts at 0 s")
        return self.values[bisect_right(self.starts_s, at_s) - 1]

    def next_change_s(self, after_s: float) -> float:
        """When the value changes next, strictly after `after_s`; infinity if never."""
        if not after_s >= 0:
            raise UserError(f"{after_s} s is no time of a schedule, which starts at 0 s")
        index = bisect_right(self.starts_s, after_s)
        return self.starts_s[index] if index < len(self.starts_s) else math.inf

    def served(self, from_s: float, to_s: float) -> float:
        """How much is served between two times: the integral; 0 if the second is the earlier."""
        total, start_s = 0.0, from_s
        while start_s < to_s:
            end_s = min(self.next_change_s(start_s), to_s)
            total += (end_s - start_s) * self.at(start_s)
            start_s = end_s
        return total

    def seconds_for(self, amount: float, from_s: float) -> float:
        """Seconds until `amount` has been served, from `from_s` on: the integral's inverse.

        What ends where the value turns 0, up to rounding, ends there, and not after the outage.
        A time is known to `ROUNDING` of itself, so what a value serves until `end_s` is known to
        ``ROUNDING * end_s * value``: an excess of no more than that counts as fitting.
        """
        if not (amount >= 0 and 0 <= from_s < math.inf):
            raise UserError(
                f"{amount} to serve from {from_s} s on; give an amount of at least 0, and a finite "
                "time from 0 s on"
            )
        if amount == 0:
            return 0.0
        starts_s, values = self.starts_s, self.values
        if (last := len(values) - 1) == 0:
            return amount / values[0]
        index = bisect_right(starts_s, from_s) - 1
        start_s, unsure = from_s, 0.0
        while index < last:
            value = values[index]
            index += 1
            end_s = starts_s[index]
            over = amount - (end_s - start_s) * value
            if over <= 0:
                seconds, most_s = (start_s - from_s) + amount / value, end_s - from_s
                return seconds if seconds < most_s else most_s
            unsure += end_s * value
            if not values[index] and over <= ROUNDING * unsure:
                return end_s - from_s
            amount, start_s = over, end_s
        return (start_s - from_s) + amount / values[last]

    def scaled(self, factor: float, from_s: float, to_s: float) -> Schedule:
        """The same with its values times `factor` between two times (`to_s` may be infinite)."""
        if not 0 <= factor < math.inf:
            raise UserError(f"factor is {factor}; it must be finite and at least 0")
        edges = {edge_s for edge_s in (from_s, to_s) if math.isfinite(edge_s)}
        starts_s = sorted({*self.starts_s, *edges})
        return Schedule(
            tuple(starts_s),
            tuple(self.at(at) * (factor if from_s <= at < to_s else 1.0) for at in starts_s),
        )

    def describe(self, unit: str = "", scale: float = 1.0) -> str:
        """As text: the value, or its range and steps, times `scale`, in `unit`."""
        after = f" {unit}" if unit else ""
        if self.constant is not None:
            return f"{self.constant * scale:g}{after}"
        low, high = min(self.values) * scale, max(self.values) * scale
        steps = f"in {len(self.values)} steps over {self.starts_s[-1]:g} s"
        return f"{low:g} to {high:g}{after} {steps}"

    def __str__(self) -> str:
        return self.describe()


OverTime = float | Schedule | Sequence[tuple[float, float]]
"""A number, or how it changes: a schedule, or pairs of (start_s, value)."""


def _pairs(value: Any) -> list[Any] | None:
    """Pairs in their order; None for anything else. A polars frame iterates over its columns."""
    if hasattr(value, "iter_rows"):
        value = value.iter_rows()
    try:
        pairs = listed("pairs", value, "")
        wrong = any(isinstance(pair, str | set | Mapping) or len(pair) != 2 for pair in pairs)
    except (UserError, TypeError):  # no list, or numbers in it
        return None
    return None if wrong else list(pairs)


def capacity(name: str, value: OverTime) -> Schedule:
    """Make a schedule of the user's value for `name`, which errors mention."""
    try:
        return Schedule.of(value)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


_NUMBER = r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*"
_ROW = re.compile(f"{_NUMBER},{_NUMBER}", re.ASCII | re.IGNORECASE)
_HEADING = re.compile(r"\s*[^\d\s.,+-][^,]*,\s*(?:[^\d\s.,+-][^,]*)?")


def _read_pairs(path: Path | str) -> list[tuple[float, float]]:
    """Read rows of two numbers, maybe below a heading; errors name the line."""
    pairs: list[tuple[float, float]] = []
    lines = enumerate(read_text(path).splitlines(), start=1)
    rows = [(line, text) for line, text in lines if text.strip()]
    for line, text in rows[1:] if rows and _HEADING.fullmatch(rows[0][1]) else rows:
        if (row := _ROW.fullmatch(text)) is None:
            raise UserError(
                f"{path}, line {line}: {text[:60]!r} is not start_s,value; write both with a "
                "decimal point, and a comma between them, as in 0.5,12.5"
            )
        pairs.append((float(row[1]), float(row[2])))
    return pairs
