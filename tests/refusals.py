"""Refusals of public values as one generated test each: a field, a bad value, what the error says.

``test_node = refusals(Node, {"name": "a"}, {"cores": {"a whole number": [0, 1.5, "2"]}})`` makes a
node of ``name`` alone, and expects every value given for ``cores`` to be refused in these words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from workbench.utils.checks import UserError


def _named(field: str, value: Any) -> str:
    """``cores=1.5``, the same in every process: no addresses, no drawn numbers, sets in order."""
    if re.search(r"\b(tensor|array)\(", repr(value)):
        return f"{field}={type(value).__name__}"
    if isinstance(value, set | frozenset):
        return f"{field}={{{', '.join(sorted(map(repr, value)))}}}"[:60]
    return re.sub(r" at 0x[0-9a-f]+", "", f"{field}={value!r}")[:60]


def refusals(
    make: Callable[..., object],
    good: Mapping[str, Any],
    wrong: Mapping[str, Mapping[str, Iterable[Any]]],
    error: type[Exception] = UserError,
) -> Any:
    """Return a test of each bad value; `wrong` is field -> message (a pattern) -> bad values."""
    cases = [
        pytest.param(name, value, message, id=_named(name, value))
        for name, rules in wrong.items()
        for message, values in rules.items()
        for value in values
    ]

    made = set[bool]()  # once a process

    @pytest.mark.parametrize(("name", "value", "message"), cases)
    def test(name: str, value: Any, message: str) -> None:
        if not made:
            make(**good)
            made.add(True)
        with pytest.raises(error, match=message):
            make(**{**good, name: value})

    return test
