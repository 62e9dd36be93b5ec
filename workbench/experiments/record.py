"""Runs a figure of hours once and keeps its rows with their provenance.

Every finished point is kept at once, in a hidden folder beside the results, by commit and data, so
a recording that was stopped can be resumed, and what other figures have computed is not computed
again. A recording of more seeds adds them to the rows of one of fewer, on this machine or another.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from workbench import results, systems
from workbench.experiments.data import data_set, digest
from workbench.experiments.figure import Figure
from workbench.experiments.recorded import FOLDER, UNTRACEABLE, Recorded, load
from workbench.store import provenance
from workbench.store.folder import partial_folder, put_in_place, sole_writer, writable
from workbench.store.manifest import NAME as MANIFEST
from workbench.store.manifest import Manifest, file_digest
from workbench.utils import files, instruction_set
from workbench.utils.checks import UserError, check_name, choose


def unrecorded(system: str, folder: Path = FOLDER) -> list[str]:
    """Return the figures of a system that have no recording, at any scale."""
    system = results.system_named(system)
    return [name for name in systems.recordable(system) if load(system, name, folder) is None]


def check_arguments(
    system: str, names: Iterable[str], scale: str, seeds: int | None, options: Mapping[str, str]
) -> None:
    """Refuse, before any of these figures runs, what one of them does not take."""
    system = results.system_named(system)
    for name in names:
        _arguments(system, systems.recordable(system)[name], scale, seeds, options)


def record(
    system: str,
    name: str,
    *,
    scale: str = "paper",
    seeds: int | None = None,
    processes: int | None = None,
    options: Mapping[str, str] | None = None,
    force: bool = False,
    folder: Path = FOLDER,
) -> Path:
    """Record a figure's rows, going on where an earlier run at the same commit was stopped.

    Parameters
    ----------
    system
        ``"edgegossip"``, or its notebook, ``"03_edgegossip"``.
    name
        Of a figure that can be recorded, such as ``"fig13"``.
    seeds
        Trainings of each kind; the scale's by default. Rows of the first of them that are recorded,
        from the same data, are kept.
    processes
        Processes that compute points; one per core by default. Timed points run one after the other
        in any case.
    options
        Parameters of the figure, as the user writes them.
    force
        Replace a recording: one of other arguments, or one that is finished.
    folder
        Of all recorded results. Returned is the one in it that holds rows and manifest.

    Raises
    ------
    UserError
        A value that is not allowed; a folder that cannot be written, or that holds a recording of
        other arguments.
    ExperimentInterrupted
        Ctrl-C; what is finished is kept for the next run.
    """
    system = results.system_named(system)
    figure = choose("experiment", name, systems.recordable(system))
    if processes is not None and processes < 1:
        raise UserError(f"--processes {processes}: must be at least 1")
    arguments = _arguments(system, figure, scale, seeds, options or {})
    if instruction_set.late:
        late = ", ".join(f"{name} is {how}" for name, how in instruction_set.late.items())
        raise UserError(f"{late}: rows would have other bits; use the command `workbench record`")
    home = folder / system
    asked = {
        data_set(scale, source, arguments["dataset"], at_default=figure.data_at_default)
        for source in figure.data
    }
    data = {source: digest(source) for source in sorted(asked)}
    with sole_writer(home, [name], lock=f".{name}.lock", instead=""):
        earlier = _recorded(system, name, folder)
        replaces = earlier is not None and _replaces(earlier, arguments)
        if replaces and not force:
            raise UserError(
                f"{home / name} holds another recording: {earlier}; --force replaces it"
            )
        same = earlier and (earlier.manifest.arguments, earlier.manifest.data) == (arguments, data)
        if same and not force:
            print(f"{name} is already recorded; nothing was run", file=sys.stderr)
            return home / name
        first = None if force else _of_fewer_seeds(earlier, arguments, data)
        revision, dirty = provenance.revision(files.ROOT, "data/recorded")
        if revision is None or dirty:
            print(f"{name} will be {UNTRACEABLE}: commit first", file=sys.stderr)
        points = home / ".points" / _points_of(revision, dirty, data)
        if force and not replaces:
            points = points / f"{name} again"
        writable(points)
        frame, seconds = _computed(figure, arguments, first, processes, points)
        with partial_folder(home, name) as partial:
            path = partial / f"{name}.parquet"
            files.write_parquet(path, frame)
            manifest = Manifest(
                of=name,
                system=system,
                arguments=arguments,
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                seconds=round(seconds + (first.manifest.seconds if first else 0), 1),
                revision=first.manifest.revision if first else revision,
                dirty=dirty,
                versions=provenance.all_versions(),
                instruction_set=instruction_set.record(),
                machine=provenance.machine(),
                outputs={path.name: file_digest(path) or ""},
                data=data,
                seeds=_seeds(frame, arguments),
                learns=figure.learns,
                processes=processes,
                extended_at=_extended_at(first, revision),
            )
            files.write_text(partial / MANIFEST, manifest.to_json())
            put_in_place(partial, home, name)
        if force and not replaces:
            shutil.rmtree(points)
    return home / name


def _extended_at(first: Recorded | None, revision: str | None) -> str | None:
    """Return the later revision by which seeds were added, now or before."""
    if first is None:
        return None
    return first.manifest.extended_at if revision == first.manifest.revision else revision


def _recorded(system: str, name: str, folder: Path) -> Recorded | None:
    """Return what is recorded; None where that is nothing, or damaged."""
    try:
        return load(system, name, folder)
    except ValueError:
        return None


def _points_of(revision: str | None, dirty: bool | None, data: Mapping[str, str]) -> str:
    """Name the folder of points that one commit computes from some data sets."""
    about = json.dumps([revision, dirty, dict(data)], sort_keys=True)
    return hashlib.sha256(about.encode()).hexdigest()[:16]


def _computed(
    figure: Figure,
    arguments: Mapping[str, Any],
    first: Recorded | None,
    processes: int | None,
    points: Path,
) -> tuple[pl.DataFrame, float]:
    """Return a figure's rows, its first seeds' as recorded, and the seconds over all runs."""
    spent = points / f"{figure.id}.seconds"
    before_s = float(spent.read_text()) if spent.exists() else 0.0
    began_s = time.monotonic()
    wanted = dict(arguments)
    if first is not None:
        number = len(first.manifest.seeds)
        wanted |= {"seed": wanted["seed"] + number, "seeds": wanted["seeds"] - number}
    try:
        frame = figure.frame(**wanted, processes=processes, folder=points)
    finally:
        seconds = before_s + time.monotonic() - began_s
        files.write_text(spent, str(seconds))
    spent.unlink()
    return frame if first is None else pl.concat([first.frame, frame]), seconds


def _replaces(there: Recorded, arguments: Mapping[str, Any]) -> bool:
    """Whether what is recorded is neither the same, nor of fewer seeds or a smaller scale."""
    kept, wanted = dict(there.manifest.arguments), dict(arguments)
    if there.scale != "paper" and wanted["scale"] == "paper":
        return False
    if (wanted.get("seeds") or 0) >= len(there.manifest.seeds):
        kept.pop("seeds", None)
        wanted.pop("seeds", None)
    return kept != wanted


def _of_fewer_seeds(
    there: Recorded | None,
    arguments: Mapping[str, Any],
    data: Mapping[str, str],
) -> Recorded | None:
    """Return what is recorded if its arguments lack nothing but the last seeds."""
    if there is None or (wanted := arguments.get("seeds")) is None:
        return None
    made = there.manifest
    same = {**made.arguments, "seeds": wanted} == arguments and made.dirty is False
    first, number = arguments["seed"], len(made.seeds)
    begun = list(made.seeds) == list(range(first, first + number))
    return there if same and made.data == data and begun and number < wanted else None


def _arguments(
    system: str, figure: Figure, scale: str, seeds: int | None, options: Mapping[str, str]
) -> dict[str, Any]:
    taken, known = figure.parameters(), systems.parameters(system)
    arguments = {"scale": known["scale"].check(scale), **taken}
    for name, text in options.items():
        if name == "scale":
            raise UserError(f"-p scale={text}: give the scale as --scale {text}")
        check_name(f"parameter of {figure.id}", name, [own for own in taken if own in known])
        arguments[name] = known[name].parse(text)
    if seeds is not None:
        if "seeds" not in taken:
            raise UserError(
                f"--seeds {seeds}: {figure.id} runs once; give its seed by -p seed=1"
                if "seed" in taken
                else f"--seeds {seeds}: there is no chance in {figure.id}"
            )
        if seeds < 1:
            raise UserError(f"--seeds {seeds}: must be at least 1")
        arguments["seeds"] = seeds
    return arguments


def _seeds(frame: pl.DataFrame, arguments: Mapping[str, Any]) -> list[int]:
    if "seed" in frame.columns:
        return frame["seed"].unique().sort().to_list()
    return [arguments["seed"]] if "seed" in arguments else []
