"""Bounds of fields, and errors that quote what a user wrote without letting it act."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
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
    parse_bytes,
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


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("64MB", 64_000_000),
        ("64 MiB", 64 * 2**20),
        ("0.5GB", 500_000_000),
        (" 1000 ", 1000),
        ("12 b", 12),
        (".5kib", 512),
        ("2TB", 2 * 10**12),
    ],
)
def test_sizes_are_read_as_users_write_them(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["1,5 GB", "16,25GB", ",5 GB", "1.500,5 MB", "1,500 MB"])
@pytest.mark.parametrize("read", [parse_bytes, lambda text: parse_budget(text, lambda: 100)])
def test_comma_in_a_size_is_refused_with_the_way_to_write_it(
    read: Callable[[str], int], text: str
) -> None:
    with pytest.raises(UserError, match=r"has a comma; write decimals with a point, as in 1\.5"):
        read(text)


@pytest.mark.parametrize("text", ["", "MB", "64XB", "-3MB", "1e3", "0", "0.1", "64 M B", "nan"])
def test_texts_that_are_not_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size; give bytes, as in 64MB, 64 MiB"):
        parse_bytes(text)
