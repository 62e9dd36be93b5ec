"""The systems by name, and what their parameters and figures are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench import dlion, dynacomm, edgegossip, hiertrain, olpb
from workbench.parameters import PARAMETERS, Parameter, declared
from workbench.system import SystemInfo
from workbench.utils.checks import choose

if TYPE_CHECKING:
    from workbench.experiments.figure import Figure, Together

SYSTEMS: dict[str, SystemInfo] = {
    "dynacomm": dynacomm.SYSTEM,
    "hiertrain": hiertrain.SYSTEM,
    "edgegossip": edgegossip.SYSTEM,
    "dlion": dlion.SYSTEM,
    "olpb": olpb.SYSTEM,
}


def _three_ways() -> tuple[Figure | Together, ...]:
    from workbench.three_ways.charts import FIGURES

    return FIGURES


ROOMS: dict[str, Callable[[], tuple[Figure | Together, ...]]] = {"three_ways": _three_ways}
"""Rooms beside the systems that have figures: name -> what returns them."""


def parameters(system: str) -> dict[str, Parameter]:
    """Return the shared parameters, overridden by those that a system's explorer declares."""
    if system not in SYSTEMS:
        return PARAMETERS
    return PARAMETERS | declared(SYSTEMS[system].setting())


def every_parameter() -> dict[str, Parameter]:
    """Return the shared parameters and those of all systems, by name."""
    return {name: one for system in SYSTEMS for name, one in parameters(system).items()}


def judged(system: str) -> tuple[Figure | Together, ...]:
    """Return all that answers a system's claims: its figures, alone and together."""
    all_figures = {name: info.figures for name, info in SYSTEMS.items()} | ROOMS
    return choose("system", system, all_figures)()


def figures(system: str) -> dict[str, Figure]:
    """Return a system's figures by id."""
    from workbench.experiments.figure import Figure

    return {figure.id: figure for figure in judged(system) if isinstance(figure, Figure)}


def recordable(system: str) -> dict[str, Figure]:
    """Return the figures of a system that `workbench record` offers, by id."""
    return {name: figure for name, figure in figures(system).items() if figure.recorded is not None}
