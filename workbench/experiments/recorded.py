"""Results of runs that take hours, recorded once: ``data/recorded/SYSTEM/EXPERIMENT/``.

>>> from workbench.experiments import recorded
>>> recorded.load("edgegossip", "fig13") is None  # unless someone has recorded it
True

`workbench record` makes them; see `workbench.experiments.record`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin, get_type_hints

import polars as pl

from workbench import paths, results
from workbench.errors import UserError
from workbench.experiments.data import AUTO, digest_here
from workbench.names import check_name
from workbench.parameters import SCALES, TRAININGS

if TYPE_CHECKING:
    from altair.typing import ChartType

FOLDER = paths.DATA / "recorded"
FORMAT = 2


class Recordable(NamedTuple):
    """An experiment worth recording: a notebook shows its rows, or claims are judged by them.

    Attributes
    ----------
    data
        What it learns from at scale ``paper``.
    at_default
        And at ``default``.
    derived
        Makes frames that claims are judged by, by name, from its rows.
    """

    data: tuple[str, ...] = ()
    at_default: str = "cluttered_digits"
    derived: Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]] = types.MappingProxyType({})


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

    ``load("edgegossip", "fig13")``: the experiment is a function of ``paper/experiments``.

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


def load_all(system: str, folder: Path = FOLDER) -> tuple[dict[str, Recorded], dict[str, str]]:
    """Return all that is recorded of a system, and why what cannot be read; by experiment."""
    found, faults = dict[str, Recorded](), dict[str, str]()
    for path in sorted((folder / system).glob(f"[!.]*/{results.MANIFEST}")):
        name = path.parent.name
        try:
            one = load(system, name, folder)
        except ValueError as error:
            faults[name] = str(error)
        else:
            found |= {name: one} if one else {}
    return found, faults


@dataclass(frozen=True)
class Shown:
    """What an experiment came to, and its figure; Jupyter shows the figure alone."""

    frame: pl.DataFrame
    figure: results.Figure

    def _repr_mimebundle_(self, **options: object) -> dict[str, str]:
        return self.figure._repr_mimebundle_(**options)


@dataclass(frozen=True)
class Trainings:
    """Shows a notebook's experiments of trainings: as recorded, or run on this machine.

    Attributes
    ----------
    which
        ``"one"``: those marked `live` and those without a recording of what is asked for run here;
        others are shown as recorded. ``"all"``: all run here; what is recorded at scale ``paper``
        is drawn as well.
    """

    results: results.Results
    which: str = "one"
    folder: Path = FOLDER

    def __post_init__(self) -> None:
        check_name("trainings", self.which, TRAININGS)

    def show(
        self,
        make: Callable[..., pl.DataFrame],
        chart: Callable[[pl.DataFrame], ChartType],
        *arguments: Any,
        live: bool = False,
        timings: bool = False,
        figure: str = "",
        **named: Any,
    ) -> Shown:
        """Show an experiment of these arguments; say where its rows are from.

        The figure has the experiment's name unless `figure` is another. `timings` is for rows that
        hold timings of this machine, where they are made here.
        """
        name = figure or make.__name__
        frame, found, here = self._rows(make, live, arguments, named)
        if not here:
            return Shown(frame, self.results.draw(name, chart(frame)))
        self.results.keep(make.__name__, frame)
        shown = self.results.draw(name, chart(frame), timings=timings)
        if found and found.scale == "paper":
            from IPython.display import display

            print(found)
            about = f"{self.results.system}: {name} (recorded figure)"
            display(results.picture(chart(found.frame), about))  # type: ignore[no-untyped-call]
        return Shown(frame, shown)

    def table(
        self, make: Callable[..., pl.DataFrame], *arguments: Any, **named: Any
    ) -> pl.DataFrame:
        """Return the rows of an experiment, as `show` does; those made here are kept."""
        frame, _, here = self._rows(make, False, arguments, named)
        return self.results.keep(make.__name__, frame) if here else frame

    def _rows(
        self,
        make: Callable[..., pl.DataFrame],
        live: bool,
        arguments: tuple[Any, ...],
        named: Mapping[str, Any],
    ) -> tuple[pl.DataFrame, Recorded | None, bool]:
        """Return rows, what is recorded, and whether the rows were made here."""
        try:
            found = load(self.results.system, make.__name__, self.folder)
        except ValueError as error:
            print(error)
            found = None
        asked = inspect.signature(make).bind(*arguments, **named).arguments
        if found and self.which == "one" and not live and found.answers(asked):
            print(found)
            print("trainings=all runs it here")
            return found.frame, found, False
        return make(*arguments, **named), found, True
