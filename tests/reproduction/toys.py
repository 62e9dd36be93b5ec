"""A system that the workbench knows in tests alone: its figures, and what its sliders set."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from workbench.reproduction import systems
from workbench.reproduction.figure import Figure, JointClaims
from workbench.reproduction.parameters import Parameters

Figures = Callable[[], tuple[Figure | JointClaims, ...]]


def modules(name: str, figures: Figures, setting: type[Parameters]) -> dict[str, ModuleType]:
    """Return the modules in which the workbench looks for a system's parts."""

    class OfFigures(ModuleType):
        @property
        def FIGURES(self) -> tuple[Figure | JointClaims, ...]:  # noqa: N802
            return figures()

    explorer = ModuleType(f"workbench.{name}.explorer")
    explorer.Setting = setting  # type: ignore[attr-defined]
    paper = OfFigures(f"workbench.{name}.paper.figures")
    return {module.__name__: module for module in (explorer, paper)}


def install(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    figures: Figures,
    setting: type[Parameters] = Parameters,
) -> None:
    monkeypatch.setitem(systems.TITLES, name, name.title())
    for path, module in modules(name, figures, setting).items():
        monkeypatch.setitem(sys.modules, path, module)
