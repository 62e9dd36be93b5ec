"""Rows of runs that take hours, recorded once: ``data/recorded/SYSTEM/FIGURE/``.

>>> from workbench.experiments import recorded
>>> recorded.load("edgegossip", "fig8") is None  # it takes no time
True

`workbench record` makes them; see `workbench.experiments.record`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from workbench.experiments.data import AUTO
from workbench.parameters import SCALES
from workbench.store import manifest
from workbench.store.manifest import Manifest
from workbench.utils import files
from workbench.utils.checks import UserError

FOLDER = files.DATA / "recorded"
UNTRACEABLE = "made by no commit's code, so that it answers no claim"


@dataclass(frozen=True)
class Recorded:
    """Recorded rows, and where they are from."""

    frame: pl.DataFrame
    manifest: Manifest

    @property
    def scale(self) -> str:
        """Scale at which it was recorded."""
        return str(self.manifest.scale)

    @property
    def traceable(self) -> bool:
        """Whether commits have the code that made it: all of its seeds."""
        return self.manifest.revision is not None and self.manifest.dirty is False

    def answers(self, asked: Mapping[str, Any]) -> bool:
        """Whether it is of what is asked for: of these arguments, at this scale or a larger one.

        Any data set answers ``"auto"``; of several seeds the one that is asked for is among them.
        """
        sizes = list(SCALES)
        for name, value in asked.items():
            own = self.manifest.arguments.get(name)
            if name == "scale":
                if sizes.index(self.scale) < sizes.index(value):
                    return False
            elif name == "seed":
                if value != own and value not in self.manifest.seeds:
                    return False
            elif value not in (own, AUTO):
                return False
        return True

    def __str__(self) -> str:
        """Say in a sentence what it is, and when and how long it was made."""
        made = self.manifest
        hours = made.seconds / 3600
        took = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
        about = {name: str(one) for name, one in made.arguments.items() if one is not None}
        about |= {"seeds": ", ".join(map(str, made.seeds)), "dataset": ", ".join(made.data)}
        arguments = "; ".join(
            f"{name} {text}" for name, text in about.items() if text and name != "seed"
        )
        return (
            f"recorded on {made.made_at[:10]}, {took} of computing "
            f"({made.machine['processor']}; {arguments}){self.doubt}"
        )

    @property
    def doubt(self) -> str:
        """Words to add where it cannot be traced to a commit; else nothing."""
        return "" if self.traceable else f"; {UNTRACEABLE}"


def load(system: str, figure: str, folder: Path = FOLDER) -> Recorded | None:
    """Return what is recorded of a figure, by its id; None where nothing is.

    Raises UserError: it is damaged, or of another format.
    """
    here = folder / system / figure
    again = f"`workbench record {system} {figure}` makes it again"
    try:
        made = Manifest.read(here)
    except FileNotFoundError:
        return None
    except manifest.OtherVersionError:
        raise UserError(f"{here} is of another version of the workbench; {again}") from None
    except ValueError:
        made = None
    if made is None or not _is_of(made, system, figure):
        raise UserError(f"{here / manifest.NAME} is damaged; {again}")
    for name in made.altered(here):
        raise UserError(f"{here / name} is missing or no longer what was recorded; {again}")
    try:
        return Recorded(pl.read_parquet(here / f"{figure}.parquet"), made)
    except pl.exceptions.PolarsError:
        raise UserError(f"{here / figure}.parquet is damaged; {again}") from None


def _is_of(made: Manifest, system: str, figure: str) -> bool:
    """Whether a manifest is of this figure, and has what is looked for in it."""
    return (
        (made.system, made.of) == (system, figure)
        and f"{figure}.parquet" in made.outputs
        and made.scale in SCALES
        and "processor" in made.machine
    )


def load_all(
    system: str, figures: Iterable[str], folder: Path = FOLDER
) -> tuple[dict[str, Recorded], dict[str, str]]:
    """Return what is recorded of these figures, and why what cannot be read; by id."""
    recordings, faults = dict[str, Recorded](), dict[str, str]()
    for name in sorted(figures):
        try:
            recording = load(system, name, folder)
        except ValueError as error:
            faults[name] = str(error)
        else:
            recordings |= {name: recording} if recording else {}
    return recordings, faults
