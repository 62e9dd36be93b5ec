"""Results of runs that take hours, recorded once: ``data/recorded/SYSTEM/EXPERIMENT/``.

>>> from workbench.experiments import recorded
>>> recorded.load("edgegossip", "fig13") is None  # unless someone has recorded it
True

`workbench record` makes them; see `workbench.experiments.record`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import paths, results

if TYPE_CHECKING:
    from altair.typing import ChartType

FOLDER = paths.DATA / "recorded"


@dataclass(frozen=True)
class Manifest:
    """Provenance of a recorded frame.

    Attributes
    ----------
    arguments
        Of the experiment, its defaults included.
    seeds
        In its rows.
    data
        SHA-256 of the images and labels of each data set in its rows, by name.
    inputs
        SHA-256 of each group of inputs.
    made_at, wall_s
        When it was finished (UTC, ISO 8601), and the seconds of all its runs.
    revision, dirty
        Git's, and whether the inputs differed from it; None outside git.
    processes
        In which points were computed; None for one per core.
    frame
        SHA-256 of the file that holds the rows.
    """

    system: str
    experiment: str
    arguments: Mapping[str, Any]
    seeds: Sequence[int]
    data: Mapping[str, str]
    inputs: Mapping[str, str]
    made_at: str
    wall_s: float
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    instruction_set: Mapping[str, str]
    revision: str | None
    dirty: bool | None
    processes: int | None
    frame: str

    def to_json(self) -> str:
        """Return readable JSON, ending in a newline."""
        return json.dumps({"format": 1, **dataclasses.asdict(self)}, indent=2) + "\n"


@dataclass(frozen=True)
class Recorded:
    """A recorded frame."""

    frame: pl.DataFrame
    manifest: Manifest

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Groups of inputs that have changed since the rows were made; ``code`` is one."""
        from workbench.reproduce import inputs, origin

        now = inputs.fingerprint_of_experiments(self.manifest.system, paths.ROOT, origin.versions())
        return tuple(name for name in now if now[name] != self.manifest.inputs.get(name))

    def __str__(self) -> str:
        """Say in a sentence what it is, when it was made, and whether it still stands."""
        one = self.manifest
        hours = f"{one.wall_s / 3600:.1f} h" if one.wall_s >= 3600 else f"{one.wall_s / 60:.1f} min"
        arguments = ", ".join(f"{name} {value}" for name, value in one.arguments.items())
        text = (
            f"recorded on {one.made_at[:10]} in {hours} ({one.machine['processor']}; {arguments})"
        )
        return f"{text}; changed since: {', '.join(self.changed)}" if self.changed else text


def load(system: str, experiment: str, folder: Path = FOLDER) -> Recorded | None:
    """Return a recorded frame; None where there is none, or it is damaged.

    ``load("edgegossip", "fig13")``: the experiment is a function of ``paper/experiments``.
    """
    here = folder / system / experiment
    try:
        found: Any = json.loads((here / results.MANIFEST).read_text(encoding="utf-8"))
        if found.pop("format", None) != 1:
            return None
        manifest = Manifest(**found)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    path = here / f"{experiment}.parquet"
    if results.file_digest(path) != manifest.frame:
        return None
    return Recorded(pl.read_parquet(path), manifest)


def frames(system: str, folder: Path = FOLDER) -> dict[str, pl.DataFrame]:
    """Return all recorded frames of a system, by experiment."""
    names = sorted(path.parent.name for path in (folder / system).glob(f"[!.]*/{results.MANIFEST}"))
    found = {name: load(system, name, folder) for name in names}
    return {name: one.frame for name, one in found.items() if one is not None}


def show(
    system: str,
    experiment: str,
    chart: Callable[[pl.DataFrame], ChartType],
    folder: Path = FOLDER,
) -> results.Figure | None:
    """Describe a recorded figure and draw it; print how to record it where there is none."""
    found = load(system, experiment, folder)
    if found is None:
        print(f"not recorded; `workbench record {system} {experiment}` does so")
        return None
    print(found)
    return results.picture(chart(found.frame), f"{system}: {experiment} (recorded figure)")
