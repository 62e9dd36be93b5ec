"""The explorers that can be shared, by their system, and what a user asks of a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from workbench.reproduction import results
from workbench.reproduction.notebook_sweep import values_of
from workbench.reproduction.parameters import Parameters, Value, check_known, declared
from workbench.reproduction.systems import TITLES
from workbench.utils.checks import UserError
from workbench.widgets import Shared

EXPLORERS = {name: f"workbench.{name}.explorer" for name in TITLES} | {
    "which_way": "workbench.comparison.explorer"
}
MOST_POINTS = 10_000


class Described(NamedTuple):
    """An explorer as its module describes it."""

    name: str
    draw: Callable[[Any], Any]
    setting: type[Parameters]
    shared: Shared


def described(name: str) -> Described:
    """Return the explorer of a notebook, named as for `workbench reproduce`.

    Raises UserError: the notebook has none, or there is no such notebook.
    """
    system = results.system_named(name)
    if system not in EXPLORERS:
        raise UserError(f"{name} has no explorer to share; these have: {', '.join(EXPLORERS)}")
    module = import_module(EXPLORERS[system])
    return Described(system, module.draw, module.Setting, module.SHARED)


def grid(explorer: Described, given: Mapping[str, str]) -> dict[str, Sequence[Value]]:
    """Return the values of every parameter: one where it is fixed, else those of its control.

    `given` are values as a user writes them, ``"10,100,1000"``, in place of the explorer's own.

    Raises UserError: no such parameter, values that are not valid, or too many settings.
    """
    known = declared(explorer.setting)
    for name in given:
        check_known(name, known.values())
    first = explorer.setting()
    axes: dict[str, Sequence[Value]] = {
        name: explorer.shared.values.get(name, (getattr(first, name),)) for name in known
    }
    axes |= {name: values_of(known[name], text) for name, text in given.items()}
    count = math.prod(map(len, axes.values()))
    if count > MOST_POINTS:
        raise UserError(
            f"these are {count:,} settings; a page has at most {MOST_POINTS:,}: give fewer values"
        )
    if count == 1:
        raise UserError(f"nothing can be moved: give {', '.join(given)} several values")
    return axes
