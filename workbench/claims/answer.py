"""Our value for one claim, and why one is missed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

from workbench.utils.checks import check_name


@dataclass(frozen=True)
class Answer:
    """Our value for one claim.

    Attributes
    ----------
    ours
        In the claim's unit; whether it holds, for an order; None if there is no value.
    detail
        Briefly, where `ours` comes from, or why there is none.
    not_run
        If the claim cannot be answered yet: what it waits for.
    timed
        Whether it is a measured time, which differs from run to run.
    seeds
        Of how many trainings, alike but for their seed, `ours` is the mean; None if of none.
    spread
        The mean's standard error over these seeds, or half the range over repeats, in the claim's
        unit; None if not known.
    caveat
        What is to be known of it also where the claim is met.
    """

    ours: float | bool | None = None
    detail: str = ""
    not_run: str = ""
    timed: bool = False
    seeds: int | None = None
    spread: float | None = None
    caveat: str = ""

    def __post_init__(self) -> None:
        plain = getattr(self.ours, "item", None)  # of NumPy's numbers, whose bool is not Python's
        if plain is not None:
            object.__setattr__(self, "ours", plain())
        if self.ours is None:
            if not (self.detail or self.not_run):
                raise AssertionError("an answer without a value says why, in detail or not_run")
        elif self.not_run:
            raise AssertionError(f"an answer has a value, {self.ours}, or did not run; not both")
        elif not math.isfinite(self.ours):
            raise AssertionError(
                f"ours is {self.ours}; where there is no value give None and a detail"
            )

    @classmethod
    def over_seeds(cls, values: Sequence[float], detail: str = "", *, caveat: str = "") -> Answer:
        """The mean of a number that each seed has, and its standard error."""
        spread = stdev(values) / sqrt(len(values)) if len(values) > 1 else None
        return cls(fmean(values), detail, seeds=len(values), spread=spread, caveat=caveat)


CAUSES: Mapping[str, str] = {
    "paper": "the paper's own numbers contradict each other",
    "data": "what it takes cannot be had",
    "noise": "the spread over seeds, or over what the paper finds alike, covers the bar",
    "ours": "of our own making, or not explained yet",
}


@dataclass(frozen=True)
class Cause:
    """The cause of a miss: a name in `CAUSES`, and what a reader can check.

    That is arithmetic with the paper's numbers, or what is lacking; tests check it.
    """

    kind: Literal["paper", "data", "noise", "ours"]
    why: str

    def __post_init__(self) -> None:
        check_name("cause", self.kind, CAUSES)
