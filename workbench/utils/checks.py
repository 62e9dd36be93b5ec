"""Checks of what a user gave: names, numbers, lists and sizes."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import DataclassInstance
    from numpy.typing import NDArray

T = TypeVar("T")


class UserError(ValueError):
    """The user gave something invalid: the message says what is allowed, and what to do.

    Raised where input enters: constructors of public values, the command line, files. The
    command ends with its message in one line; any other error is a fault of this package, and keeps
    its traceback. The message quotes users' words: control characters in them are shown as text.
    """

    def __init__(self, message: str) -> None:
        super().__init__(as_text(message))


def as_text(words: str) -> str:
    r"""Return words with their control characters as text, such as ``\x1b``; lines stay lines."""
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in words)


class UnknownNameError(UserError):
    """A name without a registry entry; the message lists those that exist."""


def check_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return `name` if it is one of `known`; the error lists these and suggests the nearest.

    `kind` says what it names: ``"model"``, ``"planner"``.

    Raises UnknownNameError: the name is not among `known`, or is not text.
    """
    names = list(known)
    if isinstance(name, str) and name in names:
        return name
    raise UnknownNameError(unknown(kind, name, names))


def unknown(kind: str, name: object, names: Sequence[str], listing: str = "") -> str:
    """Error text for an unknown name, with the nearest and a listing, by default of all names."""
    separator = "; " if any("," in known for known in names) else ", "
    listing = listing or f"Known: {separator.join(names)}"
    if not isinstance(name, str):
        return f"{kind} is {name!r}; give a name. {listing}"
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {name!r}.{hint} {listing}"


def choose(kind: str, name: str, options: Mapping[str, T]) -> T:
    """Return the entry of a registry; see `check_name` for the error."""
    return options[check_name(kind, name, options)]


MOST_BYTES = 10**18

_UNITS = {"": 1, "b": 1, "byte": 1, "bytes": 1}
_UNITS |= {f"{letter}b": 1000**n for n, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}ib": 1024**n for n, letter in enumerate("kmgt", 1)}


def is_number(value: object) -> bool:
    """Whether it is a real number, NumPy's included; truth values and arrays are not."""
    kind = type(value)  # most often one of these two, a quick check
    if kind is float or kind is int:
        return True
    return isinstance(value, Real) and not isinstance(value, bool)


def check_number(name: str, value: object) -> float:
    """Return the number for `name`, NumPy's included; refuse text, lists and truth values."""
    if type(value) is float:
        return value
    if not is_number(value):
        if isinstance(value, str):
            check_comma(name, value)
        raise UserError(f"{name} is {value!r}; give a number")
    try:
        return float(cast(Real, value))
    except OverflowError:
        raise UserError(f"{name} has more digits than a float holds; give a number") from None


def check_range(name: str, value: object, low: float, high: float, instead: str = "") -> float:
    """Return the number for `name` if it is from `low` to `high`; `instead` ends the error."""
    number = check_number(name, value)
    if not low <= number <= high:
        raise UserError(f"{name} is {value}; it must be from {low:g} to {high:g}{instead}")
    return number


def whole(value: Any) -> int | None:
    """Return a whole number, NumPy's included, as an int; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_whole(name: str, value: object, least: int) -> int:
    """Return the whole number for `name`, NumPy's included, as an int of at least `least`."""
    number = whole(value)
    if number is None or number < least:
        raise UserError(f"{name} is {value!r}; it must be a whole number of at least {least}")
    return number


def check_truth(name: str, value: object) -> None:
    """Refuse what is neither True nor False, Python's or NumPy's."""
    if isinstance(value, bool):
        return
    import numpy as np

    if not isinstance(value, np.bool_):
        raise UserError(f"{name} is {value!r}; give True or False")


Rule = Mapping[str, Callable[[str, Any], Any]]
"""Metadata of a dataclass's field: the check of its value, which `check_fields` carries out."""


def at_least(least: int, most: float = math.inf) -> Rule:
    """A whole number from `least` to `most`."""

    def check(name: str, value: object) -> int:
        number = check_whole(name, value, least)
        if number > most:
            raise UserError(f"{name} is {value}; it must be at most {most:g}")
        return number

    return {"check": check}


def between(low: float, high: float, instead: str = "") -> Rule:
    """A number from `low` to `high`; `instead` ends the error."""
    return {"check": lambda name, value: check_range(name, value, low, high, instead)}


def _number(must: str, fits: Callable[[float], bool]) -> Rule:
    def check(name: str, value: object) -> float:
        if not fits(number := check_number(name, value)):
            raise UserError(f"{name} is {value}; it must be {must}")
        return number

    return {"check": check}


ABOVE_ZERO = _number("above 0 and finite", lambda number: 0 < number < math.inf)
NOT_NEGATIVE = _number("at least 0 and finite", lambda number: 0 <= number < math.inf)
SHARE = _number("above 0 and at most 1", lambda number: 0 < number <= 1)
BELOW_ONE = _number("at least 0 and below 1", lambda number: 0 <= number < 1)


def optional(rule: Rule) -> Rule:
    """Rule of a field that may be None as well."""
    check = rule["check"]
    return {"check": lambda name, value: None if value is None else check(name, value)}


def check_fields(value: DataclassInstance, of: str = "") -> None:
    """Check a dataclass's fields by the `Rule` of each; numbers are kept as Python's.

    >>> from dataclasses import dataclass, field
    >>> @dataclass(frozen=True)
    ... class Group:
    ...     boards: int = field(default=1, metadata=at_least(1))
    ...
    ...     def __post_init__(self) -> None:
    ...         check_fields(self)
    >>> Group(boards=0)
    Traceback (most recent call last):
    workbench.utils.checks.UserError: boards is 0; it must be a whole number of at least 1

    `of` follows the field's name in errors: `` of worker0``.
    """
    for entry in fields(value):
        if "check" in entry.metadata:
            number = entry.metadata["check"](f"{entry.name}{of}", getattr(value, entry.name))
            object.__setattr__(value, entry.name, number)


def listed(name: str, value: Any, instead: str) -> tuple[Any, ...]:
    """Return the values for `name` in the user's order.

    Text, single values, sets and mappings are refused: their order is not the user's, and a set's
    differs from run to run. `instead` is the advice: ``"give numbers, such as (1, 2)"``.
    """
    kind = type(value)
    if kind is tuple or kind is list:
        return tuple(value)
    if isinstance(value, set | frozenset | Mapping):
        raise UserError(f"{name} is {value!r}, where order counts; {instead}")
    several = isinstance(value, Iterable) and getattr(value, "ndim", None) != 0
    if not several or isinstance(value, str | bytes):
        raise UserError(f"{name} is {_shown(value)}; {instead}")
    return tuple(value)


def check_kind(what: str, value: object, kind: type[T], instead: str) -> T:
    """Return an object of this class; the TypeError reads "`what` is 5; give `instead`"."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} is {_shown(value)}; give {instead}")
    return value


def _shown(value: object, most: int = 200) -> str:
    """Return the value as text, or its class where that is long."""
    text, kind = repr(value), type(value)
    return text if len(text) <= most else f"a {kind.__module__}.{kind.__qualname__}"


def check_layers(name: str, values: object, columns: int | None = None) -> NDArray[np.float64]:
    """Return a number per layer, or a row of `columns` numbers, as a read-only array of doubles.

    They are finite and not negative, of at least one layer.
    """
    import numpy as np

    try:
        found = np.asarray(values)
        if found.dtype.kind not in "iufO":  # text, truth values and complex numbers would be cast
            raise TypeError(found.dtype)
        array = np.array(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} takes numbers, not {values!r}") from None
    each = () if columns is None else (columns,)
    shape = array.shape
    if not array.size or len(shape) != 1 + len(each) or shape[1:] != each:
        row = "one number" if columns is None else f"a row of {columns} numbers"
        raise UserError(
            f"{name} takes {row} per layer, at least one layer; got an array of shape {shape}"
        )
    wrong = np.argwhere(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        where, value = wrong[0][0] + 1, array[tuple(wrong[0])]
        raise UserError(f"{name} of layer {where} is {value}; it must be finite and not negative")
    array.setflags(write=False)
    return array


def parse_budget(budget: object, whole: Callable[[], int]) -> int:
    """Bytes of a budget: a number, a size as `parse_bytes` reads it, or a share such as ``50%``.

    `whole` counts what a share is of, in bytes.
    """
    if not isinstance(budget, str):
        if isinstance(budget, float) and not budget.is_integer():
            raise UserError(f"budget is {budget}; give bytes, or a share as text, as in '50%'")
        return check_whole("budget", budget, 0)
    check_comma("budget", budget)
    share = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*", budget, re.ASCII)
    if share is None:
        try:
            return parse_bytes(budget)
        except UserError:
            raise UserError(
                f"{budget!r} is no budget; give bytes, as in 64MB, 64 MiB or 0.5GB, or a share, as "
                "in 50%"
            ) from None
    if not 0 < float(share[1]) <= 100:
        raise UserError(f"the budget {budget!r} is no share of what it takes; give 1% to 100%")
    return int(float(share[1]) / 100 * whole())


def parse_bytes(text: str) -> int:
    """Bytes of a size such as ``64MB``, ``64 MiB``, ``0.5GB`` or ``64000000``.

    Raises ValueError: anything else, less than a byte, or more than `MOST_BYTES`.
    """
    check_comma("size", text)
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)", text.strip().lower(), re.ASCII)
    if found is None or found[2] not in _UNITS or (size := float(found[1]) * _UNITS[found[2]]) < 1:
        raise UserError(f"{text!r} is not a size; give bytes, as in 64MB, 64 MiB or 0.5GB")
    if size > MOST_BYTES:
        raise UserError(f"{text!r} is too large a size; give at most {MOST_BYTES / 1e12:,.0f} TB")
    return round(size)


def check_comma(name: str, text: str) -> None:
    """Refuse a number with a comma, which some read as a decimal point and others skip."""
    if "," in text:
        raise UserError(
            f"{name} {text!r} has a comma; write decimals with a point, as in 1.5, and thousands "
            "without a mark, as in 1500"
        )
