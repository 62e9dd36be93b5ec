"""The systems by name, and what their parameters and figures are."""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench import dlion, dynacomm, edgegossip, hiertrain, olpb
from workbench.parameters import PARAMETERS, Parameter, declared
from workbench.system import SystemInfo
from workbench.utils.checks import choose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.experiments.figure import Figure, JointClaims
    from workbench.parameters import Parameters

SYSTEMS: dict[str, SystemInfo] = {
    "dynacomm": dynacomm.SYSTEM,
    "hiertrain": hiertrain.SYSTEM,
    "edgegossip": edgegossip.SYSTEM,
    "dlion": dlion.SYSTEM,
    "olpb": olpb.SYSTEM,
}


class Room(NamedTuple):
    """A room beside the systems that has figures to record and a notebook's parameters."""

    figures: Callable[[], tuple[Figure | JointClaims, ...]]
    setting: Callable[[], type[Parameters]]


def _figures() -> tuple[Figure | JointClaims, ...]:
    from workbench.three_ways.recording import RUNS

    return (RUNS,)


def _setting() -> type[Parameters]:
    from workbench.three_ways.live import Setting

    return Setting


ROOMS = {"three_ways": Room(_figures, _setting)}
_ALL: Mapping[str, SystemInfo | Room] = ChainMap[str, Any](ROOMS, SYSTEMS)


def parameters(system: str) -> dict[str, Parameter]:
    """Return the shared parameters, overridden by those that a system's explorer declares."""
    if system not in _ALL:
        return PARAMETERS
    return PARAMETERS | declared(_ALL[system].setting())


def every_parameter() -> dict[str, Parameter]:
    """Return the shared parameters and those of all systems, by name."""
    return {name: one for system in SYSTEMS for name, one in parameters(system).items()}


def judged(system: str) -> tuple[Figure | JointClaims, ...]:
    """Return all that answers a system's claims: its figures, alone and together."""
    return choose("system", system, _ALL).figures()


def figures(system: str) -> dict[str, Figure]:
    """Return a system's figures by id."""
    from workbench.experiments.figure import Figure

    return {figure.id: figure for figure in judged(system) if isinstance(figure, Figure)}


def recordable(system: str) -> dict[str, Figure]:
    """Return the figures of a system that `workbench record` offers, by id."""
    return {name: figure for name, figure in figures(system).items() if figure.recorded}
