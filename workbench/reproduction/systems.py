"""The systems by name: their titles and algorithms, what their sliders set, their figures.

Explorers and figures are imported when they are asked for, since they need PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from workbench.decentralised.exchanges import EXCHANGES
from workbench.dlion.algorithms import ALGORITHMS as DLION
from workbench.dynacomm.planners import PLANNERS as DYNACOMM
from workbench.edgegossip.algorithms import ALGORITHMS as EDGEGOSSIP
from workbench.hiertrain.algorithms import ALGORITHMS as HIERTRAIN
from workbench.olpb.algorithms import ALGORITHMS as OLPB
from workbench.reproduction.parameters import PARAMETERS, Parameter, declared
from workbench.utils.checks import check_name

if TYPE_CHECKING:
    from workbench.reproduction.figure import Figure, JointClaims

TITLES = {
    "dynacomm": "DynaComm",
    "hiertrain": "HierTrain",
    "edgegossip": "EdgeGossip",
    "dlion": "DLion",
    "olpb": "OLPB",
}
"""Systems by name, as their papers write them."""

LONGEST = ("06_which_way", "05_olpb")
"""Notebooks that take longest, as measured, whatever the number of their cells."""

ALGORITHMS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "dynacomm": {"planners": DYNACOMM},
    "hiertrain": HIERTRAIN,
    "edgegossip": EDGEGOSSIP,
    "dlion": DLION,
    "olpb": OLPB,
    "decentralised": {"exchanges of models, for any training without a server": EXCHANGES},
}
"""Registries of each system, by what they hold."""


_OTHER_FIGURES = {
    "three_ways": "workbench.comparison.validation.recording",
    "validation": "workbench.comparison.validation.elsewhere",
}


def judged(name: str) -> tuple[Figure | JointClaims, ...]:
    """Return all that answers a system's claims: its figures, alone and together.

    Raises UnknownNameError: there is no such system.
    """
    check_name("system", name, [*TITLES, *_OTHER_FIGURES])
    module = import_module(_OTHER_FIGURES.get(name, f"workbench.{name}.paper.figures"))
    figures: tuple[Figure | JointClaims, ...] = module.FIGURES
    return figures


def parameters(name: str) -> dict[str, Parameter]:
    """Return the shared parameters, overridden by those that a system's explorer declares."""
    if name not in TITLES:
        return PARAMETERS
    explorer = import_module(f"workbench.{name}.explorer")
    return PARAMETERS | declared(explorer.Setting)


def every_parameter() -> dict[str, Parameter]:
    """Return the shared parameters and those of all systems, by name."""
    return {name: own for system in TITLES for name, own in parameters(system).items()}


def figures(system: str) -> dict[str, Figure]:
    """Return a system's figures by id."""
    from workbench.reproduction.figure import Figure

    return {figure.id: figure for figure in judged(system) if isinstance(figure, Figure)}


def recordable(system: str) -> dict[str, Figure]:
    """Return the figures of a system that `workbench record` offers, by id."""
    return {name: figure for name, figure in figures(system).items() if figure.recorded}
