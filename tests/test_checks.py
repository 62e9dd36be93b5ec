"""Errors quote what a user wrote without letting it act on the terminal."""

from __future__ import annotations

import pickle

import pytest

from workbench.utils.checks import UnknownNameError, UserError, parse_budget


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
