"""Bounds of fields, and errors that quote what a user wrote without letting it act."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.refusals import refusals
from workbench.utils.checks import (
    ABOVE_ZERO,
    BELOW_ONE,
    NOT_NEGATIVE,
    UnknownNameError,
    UserError,
    at_least,
    between,
    check_fields,
    optional,
    parse_budget,
)


@dataclass(frozen=True)
class Bounded:
    count: int = field(default=2, metadata=at_least(2, 9))
    rate: float = field(default=1.0, metadata=ABOVE_ZERO)
    overhead_s: float = field(default=0.0, metadata=NOT_NEGATIVE)
    momentum: float = field(default=0.0, metadata=BELOW_ONE)
    share: float | None = field(default=None, metadata=optional(between(0.1, 1, ", or left out")))

    def __post_init__(self) -> None:
        check_fields(self, " of a")


test_fields_refused = refusals(
    Bounded,
    {"share": 1},
    {
        "count": {
            "count of a is .*; it must be a whole number of at least 2": [1, 2.0, True, "2"],
            "count of a is 10; it must be at most 9": [10],
        },
        "rate": {
            "rate of a is .*; it must be above 0 and finite": [0, math.inf, math.nan],
            "rate of a is .*; give a number": ["1", None, True],
        },
        "overhead_s": {"overhead_s of a is .*; it must be at least 0 and": [-1, math.inf]},
        "momentum": {"momentum of a is .*; it must be at least 0 and below 1": [-0.1, 1]},
        "share": {"share of a is .*; it must be from 0.1 to 1, or left out": [0, 1.1, math.nan]},
    },
)


def test_numbers_of_fields_become_pythons() -> None:
    made = Bounded(np.int8(3), np.float32(0.5), 0, share=np.float64(1))  # type: ignore[arg-type]
    assert made == Bounded(3, 0.5, 0.0, share=1.0)
    assert {type(value) for value in vars(made).values()} == {int, float}


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("\x1b[2Jb\x07", r"\x1b[2Jb\x07"),
        ("a\u202eb", r"a\u202eb"),  # from right to left
        ("\x9b31m", r"\x9b31m"),
        ("\udcff", r"\udcff"),  # an undecodable byte of a path
        ("naïve 東\nsecond line", "naïve 東\nsecond line"),
    ],
)
def test_control_characters_are_shown_as_text(words: str, shown: str) -> None:
    error = UnknownNameError(f"node {words}; give another")
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == f"node {shown}; give another"


@pytest.mark.parametrize(
    "budget",
    ["١%", "50,5%", "0,5", "7,5 MiB", "1.000,5 kB", "1e2%", "-1%", "1_0%", "١GB", "16,25 GB"],
)
def test_a_budget_is_written_in_ascii_digits_with_a_point(budget: str) -> None:
    with pytest.raises(UserError, match=r"is no budget|write decimals with a point"):
        parse_budget(budget, lambda: 1000)
