"""Look-up of registries by name; the error for a wrong name suggests the nearest right one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from workbench.errors import UserError

T = TypeVar("T")


class UnknownNameError(UserError):
    """A name without a registry entry; the message lists those that exist."""


def check_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return `name` if it is one of `known`; the error lists these and suggests the nearest.

    `kind` says what it names: ``"model"``, ``"planner"``.

    Raises UnknownNameError: the name is not among `known`, or no text.
    """
    names = list(known)
    if not isinstance(name, str):
        raise UnknownNameError(f"{kind} is {name!r}; give a name. Known: {', '.join(names)}")
    if name in names:
        return name
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownNameError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}")


def choose(kind: str, name: str, options: Mapping[str, T]) -> T:
    """Return the entry of a registry; see `check_name` for the error."""
    return options[check_name(kind, name, options)]
