"""Runs a figure of hours once and keeps its rows with their provenance.

Finished points are kept in a hidden folder beside the recordings, by commit and data, so that a
recording that was stopped goes on and figures share points.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from workbench.reproduction import provenance, results, systems
from workbench.reproduction.data import data_set, digest
from workbench.reproduction.figure import Figure
from workbench.reproduction.folder import partial_folder, put_in_place, sole_writer, writable
from workbench.reproduction.manifest import NAME as MANIFEST
from workbench.reproduction.manifest import Manifest, file_digest
from workbench.reproduction.recordings import FOLDER, UNTRACEABLE, Recording, load, load_all
from workbench.utils import files, instruction_set
from workbench.utils.checks import UserError, check_name, choose


def unrecorded(system: str, folder: Path = FOLDER) -> list[str]:
    """Return the figures of a system that have no recording, at any scale."""
    system = results.system_named(system)
    return [name for name in systems.recordable(system) if load(system, name, folder) is None]


def check_arguments(
    system: str, names: Iterable[str], scale: str, seeds: int | None, options: Mapping[str, str]
) -> None:
    """Refuse arguments that one of these figures does not take, before any of them runs."""
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
    system, name
        ``"edgegossip"``, or its notebook, ``"03_edgegossip"``; a figure, such as ``"fig13"``.
    seeds
        Trainings of each kind; the scale's by default. They replace a recording of fewer, of which
        no point is computed again at the same commit.
    processes
        Processes that compute points; one per core by default. Points that measure time run one
        after the other in any case.
    options
        Parameters of the figure, as the user writes them.
    force
        Replace a recording: one of other arguments, or one that is finished.
    folder
        The folder of all recordings. Returned is the folder in it that holds rows and manifest.

    Raises
    ------
    UserError
        A value that is not allowed, or a recording of other arguments.
    ExperimentInterrupted
        Ctrl-C; finished points are kept for the next run.
    """
    system = results.system_named(system)
    figure = choose("experiment", name, systems.recordable(system))
    if processes is not None and processes < 1:
        raise UserError(f"--processes {processes}: must be at least 1")
    arguments = _arguments(system, figure, scale, seeds, options or {})
    data = _digests(figure, arguments)
    home = folder / system
    revision, dirty = provenance.revision(files.ROOT, "data/recorded")
    versions = provenance.all_versions()
    with sole_writer(home, [name], lock=f".{name}.lock", instead=""):
        earlier = load_all(system, [name], folder)[0].get(name)  # none that is damaged
        replaces_another = earlier is not None and not _may_follow(earlier, arguments)
        if replaces_another and not force:
            raise UserError(
                f"{home / name} holds another recording: {earlier}; --force replaces it"
            )
        if earlier and _is_same(earlier, arguments, data) and not force:
            print(f"{name} is already recorded; nothing was run", file=sys.stderr)
            return home / name
        if revision is None or dirty:
            print(f"{name} will be {UNTRACEABLE}: commit first", file=sys.stderr)
        points = home / ".points" / provenance.digest([revision, dirty, data, versions])[:16]
        is_repeated = force and not replaces_another
        if is_repeated:
            points = points / f"{name} again"
        writable(points)
        frame, seconds = _computed(figure, arguments, processes, points)
        with partial_folder(home, name) as partial:
            path = partial / f"{name}.parquet"
            files.write_parquet(path, frame)
            manifest = Manifest(
                of=name,
                system=system,
                arguments=arguments,
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                seconds=round(seconds, 1),
                revision=revision,
                dirty=dirty,
                versions=versions,
                instruction_set=instruction_set.record(),
                machine=provenance.machine(),
                outputs={path.name: file_digest(path) or ""},
                data=data,
                seeds=_seeds(frame, arguments),
                learns=bool(figure.data) and figure.judged_by_accuracy,
                processes=processes,
            )
            files.write_text(partial / MANIFEST, manifest.to_json())
            put_in_place(partial, home, name)
        if is_repeated:
            shutil.rmtree(points)
    return home / name


def _arguments(
    system: str, figure: Figure, scale: str, seeds: int | None, options: Mapping[str, str]
) -> dict[str, Any]:
    """Return the figure's arguments with what the user gives in place of their defaults."""
    defaults, known = figure.parameters(), systems.parameters(system)
    arguments = {"scale": known["scale"].check(scale), **defaults}
    for name, text in options.items():
        if name == "scale":
            raise UserError(f"-p scale={text}: give the scale as --scale {text}")
        options_of_figure = [option for option in defaults if option in known]
        if not options_of_figure:
            raise UserError(f"-p {name}={text}: {figure.id} has no parameters to set")
        check_name(f"parameter of {figure.id}", name, options_of_figure)
        arguments[name] = known[name].parse(text)
    if seeds is not None:
        if "seeds" not in defaults:
            raise UserError(
                f"--seeds {seeds}: {figure.id} runs once; give its seed by -p seed=1"
                if "seed" in defaults
                else f"--seeds {seeds}: there is no chance in {figure.id}"
            )
        if seeds < 1:
            raise UserError(f"--seeds {seeds}: must be at least 1")
        arguments["seeds"] = seeds
    return arguments


def _digests(figure: Figure, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of the data sets that a figure trains on, by name or path."""
    sources = {
        data_set(arguments["scale"], paper, arguments["dataset"], at_default=figure.data_at_default)
        for paper in figure.data
    }
    return {source: digest(source) for source in sorted(sources)}


def _is_same(earlier: Recording, arguments: Mapping[str, Any], data: Mapping[str, str]) -> bool:
    """Whether a recording is of these arguments and data; its number of seeds may be the usual."""
    made = earlier.manifest
    usual = {"seeds": len(made.seeds)} if made.arguments.get("seeds", 0) is None else {}
    return made.data == data and arguments in (made.arguments, {**made.arguments, **usual})


def _may_follow(earlier: Recording, arguments: Mapping[str, Any]) -> bool:
    """Whether a recording may replace an earlier one unasked: more seeds, or the paper's size."""
    if earlier.scale != "paper" and arguments["scale"] == "paper":
        return True
    before, seeds = dict(earlier.manifest.arguments), arguments.get("seeds")
    if seeds is not None and seeds >= len(earlier.manifest.seeds):
        before["seeds"] = seeds
    return before == arguments


def _computed(
    figure: Figure, arguments: Mapping[str, Any], processes: int | None, points: Path
) -> tuple[pl.DataFrame, float]:
    """Return a figure's rows, and the seconds of all runs that its points come from."""
    about = {name: value for name, value in arguments.items() if name != "seeds"}
    file = points / f"{figure.id}_{provenance.digest(about)[:8]}.seconds"
    before_s = float(file.read_text()) if file.exists() else 0.0
    began_s = time.monotonic()
    try:
        frame = figure.frame(**arguments, processes=processes, folder=points)
    finally:
        seconds = before_s + time.monotonic() - began_s
        files.write_text(file, str(seconds))
    return frame, seconds


def _seeds(frame: pl.DataFrame, arguments: Mapping[str, Any]) -> list[int]:
    if "seed" in frame.columns:
        return frame["seed"].unique().sort().to_list()
    return [arguments["seed"]] if "seed" in arguments else []
