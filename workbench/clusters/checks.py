"""Numbers and indices as users give them."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any


def check_number(name: str, given: object) -> float:
    """Return a number that was given for `name`, NumPy's included.

    Raises
    ------
    ValueError
        It is no number, such as text, a list or a truth value.
    """
    if type(given) is float:
        return given
    if isinstance(given, bool) or not isinstance(given, Real):
        raise ValueError(f"{name} is {given!r}; give a number")
    return float(given)


def whole(given: Any) -> int | None:
    """Return a whole number, NumPy's included, as an int; None for anything else."""
    if isinstance(given, bool):
        return None
    try:
        return operator.index(given)
    except TypeError:
        return None
