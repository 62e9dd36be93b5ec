"""Numbers and indices as users give them."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any, cast


def is_number(given: object) -> bool:
    """Whether it is a real number, NumPy's included; truth values and arrays are none."""
    kind = type(given)  # most often one of these two, which is quickly told
    if kind is float or kind is int:
        return True
    return isinstance(given, Real) and not isinstance(given, bool)


def check_number(name: str, given: object) -> float:
    """Return a number that was given for `name`, NumPy's included.

    Raises
    ------
    ValueError
        It is no number, such as text, a list or a truth value.
    """
    if type(given) is float:
        return given
    if not is_number(given):
        raise ValueError(f"{name} is {given!r}; give a number")
    return float(cast(Real, given))


def whole(given: Any) -> int | None:
    """Return a whole number, NumPy's included, as an int; None for anything else."""
    if isinstance(given, bool):
        return None
    try:
        return operator.index(given)
    except TypeError:
        return None
