"""A system as one value: what the workbench knows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.experiments.figure import Figure, JointClaims
    from workbench.parameters import Parameters


@dataclass(frozen=True, kw_only=True)
class SystemInfo:
    """A system of one paper.

    Attributes
    ----------
    title
        Its name as the paper writes it.
    algorithms
        All its registries by what they hold.
    setup, setting, figures
        Return what its ``train`` takes, its explorer's parameters, and the paper's figures with
        what they answer together. They import when called, so that a public face needs neither
        PyTorch nor ``paper/``.
    """

    title: str
    algorithms: Mapping[str, Mapping[str, object]]
    setup: Callable[[], type]
    setting: Callable[[], type[Parameters]]
    figures: Callable[[], tuple[Figure | JointClaims, ...]]

    @classmethod
    def of(
        cls, package: str, title: str, algorithms: Mapping[str, Mapping[str, object]]
    ) -> SystemInfo:
        """The system in a package, whose rooms have their usual names."""

        def asked(room: str, name: str) -> Callable[[], Any]:
            return lambda: getattr(import_module(f"{package}.{room}"), name)

        return cls(
            title=title,
            algorithms=algorithms,
            setup=asked("training", "Setup"),
            setting=asked("explorer", "Setting"),
            figures=asked("paper.figures", "FIGURES"),
        )
