"""What the workbench gets for one claim, and which systems answer theirs."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What the workbench gets for one claim.

    Parameters
    ----------
    ours
        In the claim's unit; whether it holds, for an order; None if there is no value.
    detail
        What `ours` was computed from, or why there is none.
    not_run
        Set if the claim cannot be answered yet: what it waits for.
    """

    ours: float | bool | None = None
    detail: str = ""
    not_run: str = ""

    def __post_init__(self) -> None:
        plain = getattr(self.ours, "item", None)  # of NumPy's numbers, whose bool is not Python's
        if plain is not None:
            object.__setattr__(self, "ours", plain())
        if self.ours is None:
            if not (self.detail or self.not_run):
                raise ValueError("an answer without a value says why, in detail or not_run")
        elif self.not_run:
            raise ValueError(f"an answer has a value, {self.ours}, or did not run; not both")
        elif not math.isfinite(self.ours):
            raise ValueError(f"ours is {self.ours}; where there is no value give None and a detail")


def built(system: str) -> bool:
    """Tell whether the workbench has this system, that is, answers to its claims."""
    try:
        return importlib.util.find_spec(f"workbench.{system}.paper.answers") is not None
    except ModuleNotFoundError:
        return False
