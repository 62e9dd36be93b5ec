"""One claim: a number or an ordering that a paper states."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.names import check_name

COLUMNS = ("id", "system", "source", "setting", "metric", "unit", "value", "check", "note")
CHECKS = ("near", "at_most", "at_least", "range", "order", "input")

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class Claim:
    """One number or ordering that a paper states.

    Attributes
    ----------
    id
        Dotted, the system first; claims that differ in the last part only are siblings.
    value
        As the table has it: a number, ``LOW-HIGH`` for a range, a statement for an order.
    check
        One of `CHECKS`: how ours is held against it.
    """

    id: str
    system: str
    source: str
    setting: str
    metric: str
    unit: str
    value: str
    check: str
    note: str = ""

    def __post_init__(self) -> None:
        if not self.id.startswith(f"{self.system}."):
            raise ValueError(f"the id {self.id!r} does not begin with its system, {self.system!r}")
        check_name("check", self.check, CHECKS)
        if self.check == "range":
            low, high = self.bounds
            if low > high:
                raise ValueError(f"{self.id}: the range {self.value} runs from high to low")
        elif self.check != "order" and re.fullmatch(_NUMBER, self.value) is None:
            raise ValueError(
                f"{self.id}: the check {self.check!r} needs a number, not {self.value!r}"
            )

    @property
    def paper(self) -> float | str:
        """The paper's value: a number, or the words of a range or an order."""
        return self.value if self.check in ("range", "order") else float(self.value)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest value of a range.

        Raises
        ------
        ValueError
            The value is not of the form ``LOW-HIGH``.
        """
        found = re.fullmatch(f"({_NUMBER})-({_NUMBER})", self.value)
        if found is None:
            raise ValueError(f"{self.id}: a range is LOW-HIGH, not {self.value!r}")
        return float(found[1]), float(found[2])
