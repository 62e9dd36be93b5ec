"""Rows of experiments of hours, kept with their provenance: ``data/recorded/SYSTEM/FIGURE/``.

>>> from workbench.reproduction import recordings
>>> recordings.load("edgegossip", "fig8") is None  # it is computed in no time
True

`workbench record` makes them; see `workbench.reproduction.record`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from workbench.reproduction import manifest
from workbench.reproduction.data import AUTO
from workbench.reproduction.manifest import Manifest
from workbench.reproduction.parameters import SCALES
from workbench.utils import files
from workbench.utils.checks import UserError

FOLDER = files.DATA / "recorded"
UNTRACEABLE = "made by no commit's code, so that it answers no claim"


@dataclass(frozen=True)
class Recording:
    """Recorded rows and their provenance."""

    frame: pl.DataFrame
    manifest: Manifest

    @property
    def scale(self) -> str:
        """Scale at which it was recorded."""
        return str(self.manifest.scale)

    @property
    def traceable(self) -> bool:
        """Whether the code of all its rows is in commits."""
        return self.manifest.revision is not None and self.manifest.dirty is False

    @property
    def doubt(self) -> str:
        """Words to add where it cannot be traced to a commit; else nothing."""
        return "" if self.traceable else f"; {UNTRACEABLE}"

    def answers(self, asked: Mapping[str, Any]) -> bool:
        """Whether it was made with these arguments, at this scale or a larger one.

        Any data set answers ``"auto"``; the seed is one of those that were recorded.
        """
        recorded, sizes = self.manifest.arguments, list(SCALES)

        def answers(name: str, value: Any) -> bool:
            if name == "scale":
                return sizes.index(self.scale) >= sizes.index(value)
            if name == "seed":
                return value == recorded.get(name) or value in self.manifest.seeds
            return value in (recorded.get(name), AUTO)

        return all(answers(name, value) for name, value in asked.items())

    def __str__(self) -> str:
        """Say in a sentence what it is, when it was made, and how long that took."""
        made = self.manifest
        hours = made.seconds / 3600
        duration = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
        about = {name: str(value) for name, value in made.arguments.items() if value is not None}
        about |= {"seeds": ", ".join(map(str, made.seeds)), "dataset": ", ".join(made.data)}
        arguments = "; ".join(
            f"{name} {text}" for name, text in about.items() if text and name != "seed"
        )
        return (
            f"recorded on {made.made_at[:10]}, {duration} of computing "
            f"({made.machine['processor']}; {arguments}){self.doubt}"
        )


def load(system: str, figure: str, folder: Path = FOLDER) -> Recording | None:
    """Return the recording of a figure, by its id; None where there is none.

    Raises UserError: it is damaged, or of another format.
    """
    home = folder / system / figure
    again = f"`workbench record {system} {figure}` makes it again"
    try:
        made = Manifest.read(home)
        if (made.system, made.of) != (system, figure):
            raise ValueError(f"it is of {made.system} {made.of}")
    except FileNotFoundError:
        return None
    except manifest.OtherVersionError:
        raise UserError(f"{home} is of another version of the workbench; {again}") from None
    except ValueError:
        raise UserError(f"{home / manifest.NAME} is damaged; {again}") from None
    for name in made.altered(home):
        raise UserError(f"{home / name} is missing or no longer what was recorded; {again}")
    try:
        return Recording(pl.read_parquet(home / f"{figure}.parquet"), made)
    except (OSError, pl.exceptions.PolarsError):
        raise UserError(f"{home / figure}.parquet is damaged; {again}") from None


def load_all(
    system: str, figures: Iterable[str], folder: Path = FOLDER
) -> tuple[dict[str, Recording], dict[str, str]]:
    """Return the recordings of these figures, and why others cannot be read; by id."""
    recordings, faults = dict[str, Recording](), dict[str, str]()
    for name in sorted(figures):
        try:
            recording = load(system, name, folder)
        except ValueError as error:
            faults[name] = str(error)
        else:
            recordings |= {name: recording} if recording else {}
    return recordings, faults
