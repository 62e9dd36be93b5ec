"""Results of runs that take hours, recorded once: ``data/recorded/SYSTEM/EXPERIMENT/``.

>>> from workbench.experiments import recorded
>>> recorded.load("edgegossip", "fig13") is None  # unless someone has recorded it
True

`workbench record` makes them; see `workbench.experiments.record`.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import polars as pl

from workbench import paths, results
from workbench.errors import UserError
from workbench.experiments.data import AUTO, digest_here
from workbench.parameters import SCALES

FOLDER = paths.DATA / "recorded"
FORMAT = 2


@dataclass(frozen=True)
class Manifest:
    """Provenance of a recorded frame.

    Attributes
    ----------
    module
        That has the experiment.
    arguments
        Of the experiment, its defaults included.
    seeds
        In its rows.
    data
        SHA-256 of the images and labels of each data set that was asked for, by name or path.
    inputs
        SHA-256 of each group of inputs.
    made_at, points_s
        When it was finished (UTC, ISO 8601), and the seconds of all its points together.
    revision, dirty
        Git's, and whether the inputs differed from it; None outside git.
    processes
        In which points were computed; None for one per core.
    frames
        SHA-256 of each file: of its rows, by its name, and of frames that follow from them.
    """

    system: str
    experiment: str
    module: str
    arguments: Mapping[str, Any]
    seeds: Sequence[int]
    data: Mapping[str, str]
    inputs: Mapping[str, str]
    made_at: str
    points_s: float
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    instruction_set: Mapping[str, str]
    revision: str | None
    dirty: bool | None
    processes: int | None
    frames: Mapping[str, str]

    def to_json(self) -> str:
        """Return readable JSON, ending in a newline."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=2) + "\n"


@dataclass(frozen=True)
class Recorded:
    """Recorded rows, and what follows from them, by name."""

    frames: Mapping[str, pl.DataFrame]
    manifest: Manifest

    @property
    def frame(self) -> pl.DataFrame:
        """The experiment's rows."""
        return self.frames[self.manifest.experiment]

    @property
    def scale(self) -> str:
        """Scale at which it was recorded."""
        return str(self.manifest.arguments["scale"])

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

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Groups of inputs that have changed since the rows were made; ``code`` is one."""
        from workbench.reproduce import inputs, origin

        one = self.manifest
        now = inputs.fingerprint_of_rows(one.system, one.module, paths.ROOT, origin.versions())
        return tuple(changes(one.inputs, one.data, now))

    def __str__(self) -> str:
        """Say in a sentence what it is, when it was made, and whether it still stands."""
        one = self.manifest
        hours = one.points_s / 3600
        took = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
        about = {name: str(value) for name, value in one.arguments.items()}
        about |= {"seeds": ", ".join(map(str, one.seeds)), "dataset": ", ".join(one.data)}
        arguments = "; ".join(
            f"{name} {text}" for name, text in about.items() if text and name != "seed"
        )
        text = (
            f"recorded on {one.made_at[:10]}, {took} of computing "
            f"({one.machine['processor']}; {arguments})"
        )
        return f"{text}; changed since: {', '.join(self.changed)}" if self.changed else text


def changes(
    inputs: Mapping[str, str], data: Mapping[str, str], now: Mapping[str, str]
) -> list[str]:
    """Name what differs from `now`, and data sets that differ from those here without a network."""
    changed = [name for name in now if now[name] != inputs.get(name)]
    here = {source: digest_here(source) for source in data}
    return changed + [f"data set {one}" for one in data if here[one] not in (None, data[one])]


def load(system: str, experiment: str, folder: Path = FOLDER) -> Recorded | None:
    """Return what is recorded of an experiment; None where nothing is.

    ``load("edgegossip", "fig13")``.

    Raises ValueError: it is damaged, or of another format.
    """
    here = folder / system / experiment
    again = f"`workbench record {system} {experiment}` makes it again"
    try:
        found: Any = json.loads((here / results.MANIFEST).read_text(encoding="utf-8"))
        written_as = found.pop("format", None)
        manifest = Manifest(**found) if written_as == FORMAT else None
        whole = manifest is None or _is_whole(manifest, system, experiment)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError):
        whole, manifest = False, None
    if not whole:
        raise UserError(f"{here / results.MANIFEST} is damaged; {again}")
    if manifest is None:
        raise UserError(f"{here} is of another version of the workbench; {again}")
    for name, digest in manifest.frames.items():
        path = here / f"{name}.parquet"
        if results.file_digest(path) != digest:
            raise UserError(f"{path} is missing or no longer what was recorded; {again}")
    frames = {name: pl.read_parquet(here / f"{name}.parquet") for name in manifest.frames}
    return Recorded(frames, manifest)


def _is_whole(one: Manifest, system: str, experiment: str) -> bool:
    """Whether all fields are of their types, and those that are looked into have what is sought."""
    return (
        all(_is(getattr(one, name), hint) for name, hint in get_type_hints(Manifest).items())
        and (one.system, one.experiment) == (system, experiment)
        and experiment in one.frames
        and one.arguments.get("scale") in SCALES
        and "processor" in one.machine
    )


def _is(value: object, hint: Any) -> bool:
    """Whether a value from JSON is of a field's type."""
    inner = get_args(hint)
    match get_origin(hint):
        case abc.Mapping:
            return isinstance(value, dict) and all(_is(one, inner[1]) for one in value.values())
        case abc.Sequence:
            return isinstance(value, list) and all(_is(one, inner[0]) for one in value)
        case types.UnionType:
            return any(_is(value, one) for one in inner)
    return hint is Any or type(value) is hint or (hint is float and type(value) is int)


def load_all(
    system: str, figures: Iterable[str], folder: Path = FOLDER
) -> tuple[dict[str, Recorded], dict[str, str]]:
    """Return what is recorded of these figures, and why what cannot be read; by id."""
    found, faults = dict[str, Recorded](), dict[str, str]()
    for name in sorted(figures):
        try:
            one = load(system, name, folder)
        except ValueError as error:
            faults[name] = str(error)
        else:
            found |= {name: one} if one else {}
    return found, faults
