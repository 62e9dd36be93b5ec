"""A capacity that changes over time in steps, with exact sums and their exact inverse."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any, NoReturn

from workbench.clusters.checks import check_number
from workbench.clusters.recorded import read_pairs


@dataclass(frozen=True)
class Schedule:
    """Piecewise constant over time: a value from each start on, the last one for ever.

    Parameters
    ----------
    starts_s
        When each value begins, in seconds, ascending; the first is 0.
    values
        The values, in the unit of what is scheduled (bits per second, or a speed). A 0 halts
        what is served until the next value; the last must be above 0.

    Raises
    ------
    ValueError
        No values, as many starts as values not, unordered or not finite starts, a first start
        that is not 0, a value that is no number, negative or not finite, or 0 for ever.
    """

    starts_s: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("starts_s", "values"):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise ValueError(f"{name} is {given!r}; give several, or use Schedule.of")
            what = "a start of the schedule" if name == "starts_s" else "a value of the schedule"
            object.__setattr__(self, name, tuple(check_number(what, x) for x in given))
        starts_s, values = self.starts_s, self.values
        if not values:
            raise ValueError("the schedule is empty; give at least one (start_s, value)")
        if len(starts_s) != len(values):
            raise ValueError(f"{len(starts_s)} starts for {len(values)} values; each needs one")
        for start_s, value in zip(starts_s, values, strict=True):
            if not math.isfinite(start_s):
                raise ValueError(f"a piece of the schedule starts at {start_s} s; give seconds")
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(
                    f"the schedule is {value} from {start_s} s on; values are finite and "
                    "not negative"
                )
        if starts_s[0] != 0:
            raise ValueError(
                f"the schedule starts at {starts_s[0]} s; its first value must start at 0 s"
            )
        for before_s, after_s in pairwise(starts_s):
            if not before_s < after_s:
                raise ValueError(
                    f"the schedule is not in order: {after_s} s comes after {before_s} s; "
                    "every start must be later than the one before"
                )
        if values[-1] == 0:
            raise ValueError(
                f"the schedule is 0 for ever from {starts_s[-1]} s on, so what waits for it "
                "would never end; let its last value be above 0"
            )

    @classmethod
    def of(cls, given: float | Schedule | Iterable[tuple[float, float]]) -> Schedule:
        """Make a schedule of a number, of (start_s, value) pairs, or leave one as it is.

        The rows of a polars frame of two columns, start and value, are such pairs.

        Raises
        ------
        ValueError
            Something else, such as text or a function, or no legal schedule.
        """
        what: Any = given
        if isinstance(what, Schedule):
            return what
        if callable(what):
            raise ValueError(
                f"{what!r} is a function; sample it with Schedule.sampled(function, step_s=..., "
                "end_s=...)"
            )
        if isinstance(what, str | bytes | Path):
            raise ValueError(
                f"{what!r} is no schedule; give a number, pairs of (start_s, value), or read a "
                "file with Schedule.from_csv"
            )
        if isinstance(what, Iterable) and getattr(what, "ndim", None) != 0:
            pairs = [] if isinstance(what, Mapping) else _rows(what)
            if isinstance(what, Mapping) or not all(_is_pair(pair) for pair in pairs):
                raise ValueError(
                    f"{what!r} is no schedule; give pairs of (start_s, value), such as "
                    "[(0, 1e6), (5, 2e6)]"
                )
            return cls(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))
        if isinstance(what, bool) or not isinstance(what, Real):
            raise ValueError(f"{what!r} is no schedule; give a number or pairs of (start_s, value)")
        return cls((0.0,), (float(what),))

    @classmethod
    def from_csv(cls, path: Path | str, *, scale: float = 1.0) -> Schedule:
        """Read a recorded trace: two columns, start in seconds and value, a heading or none.

        A heading is a first row of which neither cell is a number.

        Parameters
        ----------
        path
            The file, text in UTF-8.
        scale
            Factor on every value, above 0: 1e6 for a file in Mbit/s.

        Raises
        ------
        ValueError
            A row that is not two numbers (told with its line), no legal schedule, a factor that
            is none, or a file in another encoding.
        """
        if not 0 < check_number("scale", scale) < math.inf:
            raise ValueError(f"scale is {scale}; it must be above 0 and finite")
        pairs = [(start_s, value * scale) for start_s, value in read_pairs(Path(path))]
        try:
            return cls.of(pairs)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def sampled(
        cls, function: Callable[[float], float], *, step_s: float, end_s: float
    ) -> Schedule:
        """Sample a function of time at 0, `step_s`, ... before `end_s`; each value holds a step.

        Raises
        ------
        ValueError
            A step or an end that is not above 0, or values that make no legal schedule.
        """
        for name, seconds in (("step_s", step_s), ("end_s", end_s)):
            if not 0 < check_number(name, seconds) < math.inf:
                raise ValueError(f"{name} is {seconds}; it must be above 0 s")
        if not callable(function):
            raise ValueError(f"{function!r} is no function of time; for values, use Schedule.of")
        starts_s = [index * step_s for index in range(math.ceil(end_s / step_s))]
        return cls(tuple(starts_s), tuple(function(start_s) for start_s in starts_s))

    @property
    def constant(self) -> float | None:
        """The value, where it never changes; else None."""
        return self.values[0] if len(self.values) == 1 else None

    def at(self, at_s: float) -> float:
        """Value from `at_s` on.

        Raises
        ------
        ValueError
            A time below 0, or none; so for the methods below.
        """
        if not at_s >= 0:
            _refuse("at_s", at_s)
        return self.values[bisect_right(self.starts_s, at_s) - 1]

    def next_change_s(self, after_s: float) -> float:
        """When the value changes next, strictly after `after_s`; infinity if never."""
        if not after_s >= 0:
            _refuse("after_s", after_s)
        index = bisect_right(self.starts_s, after_s)
        return self.starts_s[index] if index < len(self.starts_s) else math.inf

    def served(self, from_s: float, to_s: float) -> float:
        """How much is served between two times: the integral; 0 if the second is the earlier."""
        if not (from_s >= 0 and to_s >= 0):
            _refuse("to_s" if from_s >= 0 else "from_s", to_s if from_s >= 0 else from_s)
        total, start_s = 0.0, from_s
        while start_s < to_s:
            end_s = min(self.next_change_s(start_s), to_s)
            total += (end_s - start_s) * self.at(start_s)
            start_s = end_s
        return total

    def seconds_for(self, amount: float, from_s: float) -> float:
        """Seconds until `amount` has been served, from `from_s` on: the integral's inverse."""
        if not (amount >= 0 and 0 <= from_s < math.inf):
            if not amount >= 0:
                raise ValueError(f"the amount to serve is {amount}; it must be at least 0")
            _refuse("from_s", from_s)
        if amount == 0:
            return 0.0
        starts_s, values = self.starts_s, self.values
        index = bisect_right(starts_s, from_s) - 1
        start_s = from_s
        while index + 1 < len(values):
            end_s, value = starts_s[index + 1], values[index]
            if amount <= (room := (end_s - start_s) * value):
                break
            amount -= room
            start_s, index = end_s, index + 1
        return (start_s - from_s) + amount / values[index]

    def scaled(self, factor: float, from_s: float, to_s: float) -> Schedule:
        """The same with its values times `factor` between two times (`to_s` may be infinite)."""
        for name, edge_s in (("from_s", from_s), ("to_s", to_s)):
            if not edge_s >= 0:
                _refuse(name, edge_s)
        edges = {edge_s for edge_s in (from_s, to_s) if math.isfinite(edge_s)}
        starts_s = sorted({*self.starts_s, *edges})
        return Schedule(
            tuple(starts_s),
            tuple(self.at(at) * (factor if from_s <= at < to_s else 1.0) for at in starts_s),
        )

    def describe(self, unit: str = "", scale: float = 1.0) -> str:
        """In words: the value, or its range and steps, times `scale`, in `unit`."""
        after = f" {unit}" if unit else ""
        if self.constant is not None:
            return f"{self.constant * scale:g}{after}"
        low, high = min(self.values) * scale, max(self.values) * scale
        steps = f"in {len(self.values)} steps over {self.starts_s[-1]:g} s"
        return f"{low:g} to {high:g}{after} {steps}"

    def __str__(self) -> str:
        return self.describe()


def _refuse(name: str, seconds: float) -> NoReturn:
    raise ValueError(f"{name} is {seconds}; a schedule starts at 0 s, so give a time from then on")


def _rows(given: Iterable[Any]) -> list[Any]:
    """Its rows: a polars frame goes through its columns when it is walked."""
    iter_rows = getattr(given, "iter_rows", None)
    return list(given if iter_rows is None else iter_rows())


def _is_pair(given: object) -> bool:
    return isinstance(given, Sized) and not isinstance(given, str | Mapping) and len(given) == 2


def capacity(name: str, given: float | Schedule | Sequence[tuple[float, float]]) -> Schedule:
    """Make a schedule of what a user gave for `name`, whose errors bear that name."""
    try:
        return Schedule.of(given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
