"""The systems by name, and what each of them declares."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

from workbench.parameters import PARAMETERS, Parameter, declared


def systems() -> list[str]:
    """Return the names of all systems: the packages that have an explorer."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/explorer.py"))


def title(system: str) -> str:
    """Return a system's name as its paper writes it, by which its package's docstring begins."""
    try:
        about = importlib.import_module(f"workbench.{system}").__doc__ or ""
    except ModuleNotFoundError:  # a system that is not built yet
        return system
    return about.partition(":")[0] or system


def parameters(system: str) -> dict[str, Parameter]:
    """Return the shared parameters, overridden by those that a system's explorer declares."""
    if system not in systems():
        return PARAMETERS
    explorer = importlib.import_module(f"workbench.{system}.explorer")
    return PARAMETERS | declared(explorer.Setting)


def every_parameter() -> dict[str, Parameter]:
    """Return the shared parameters and those of all systems, by name."""
    return {name: one for system in systems() for name, one in parameters(system).items()}


def algorithms(system: str) -> Mapping[str, Mapping[str, object]]:
    """Return a system's registries of algorithms, by their kind."""
    registries: Mapping[str, Mapping[str, object]] = importlib.import_module(
        f"workbench.{system}.algorithms"
    ).ALGORITHMS
    return registries
