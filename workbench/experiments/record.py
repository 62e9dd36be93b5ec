"""Runs a figure of hours once and keeps its rows with their provenance.

Every finished point is kept at once, in a hidden folder beside the results, so a recording that was
stopped can be resumed, and what other figures have computed is not computed again. Points are found
by their call and what it rests on, so none is mixed with those of another version. A recording of
more seeds adds them to the rows of one of fewer, on this machine or another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from workbench import results, systems
from workbench.experiments import finished
from workbench.experiments.data import data_set, digest
from workbench.experiments.figure import Figure
from workbench.experiments.recorded import FOLDER, Recorded, changes, load
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
    allow_dirty: bool = False,
    folder: Path = FOLDER,
) -> Path:
    """Record a figure's rows, going on where an earlier run was stopped.

    Parameters
    ----------
    system
        ``"edgegossip"``, or its notebook, ``"03_edgegossip"``.
    name
        Of a figure that can be recorded, such as ``"fig13"``.
    seeds
        How many trainings of each kind; the scale's by default. Rows of the first of them that
        are recorded, by the present code and data, are kept.
    processes
        How many run points in parallel; one per core by default. Timed points run one after the
        other in any case.
    options
        Parameters of the figure, as the user writes them.
    force
        Replace a recording made with other arguments; else repeat finished points.
    allow_dirty
        Record also what cannot be traced to a commit of main; the manifest says ``dirty``.
    folder
        Of all recorded results. Returned is the one in it that holds rows and manifest.

    Raises
    ------
    UserError
        A value that is not allowed; rows for ``data/recorded`` that could not be traced; a folder
        that cannot be written, or that holds another recording; or what the rows rest on changed
        meanwhile.
    ExperimentInterrupted
        Ctrl-C; what is finished is kept for the next run.
    """
    system = results.system_named(system)
    figure = choose("experiment", name, systems.recordable(system))
    assert figure.recorded is not None
    if processes is not None and processes < 1:
        raise UserError(f"--processes {processes}: must be at least 1")
    arguments = _arguments(system, figure, scale, seeds, options or {})
    if instruction_set.late:
        late = ", ".join(f"{name} is {how}" for name, how in instruction_set.late.items())
        raise UserError(f"{late}: rows would have other bits; use the command `workbench record`")
    home = folder / system
    there = _there(system, name, folder)
    replaces = there is not None and _replaces(there, arguments)
    if replaces and not force:
        raise UserError(f"{home / name} holds another recording: {there}; --force replaces it")
    before = figure.rests_on(system)
    asked = {
        data_set(scale, source, arguments["dataset"], at_default=figure.recorded.at_default)
        for source in figure.recorded.data
    }
    data = {source: digest(source) for source in sorted(asked)}
    revision, dirty = provenance.revision(files.ROOT, "data/recorded")
    stands = there and (there.manifest.arguments, there.manifest.inputs, there.manifest.data)
    now_traceable = there is not None and not there.traceable and dirty is False
    if not force and stands == (arguments, before, data) and not now_traceable:
        print(f"{name} is already recorded; nothing was run", file=sys.stderr)
        return home / name
    of_data = {f"data set {source}": sha for source, sha in data.items()}
    kept = folder.resolve() == FOLDER.resolve() and not allow_dirty
    if kept and (why := provenance.untraceable(files.ROOT, "data/recorded")):
        raise UserError(
            f"{why}, so nobody could make {name} again: record from a clean clone at a commit of "
            "main. To try it out, give another folder by --output, or --allow-dirty"
        )

    def rests_on(measure: finished.Measure) -> dict[str, str]:
        return provenance.inputs_of_rows(system, measure) | of_data

    def check() -> None:
        if changed := changes(before, data, figure.rests_on(system)):
            raise UserError(
                f"{', '.join(changed)} changed while {name} ran; points finished before are "
                "kept for that version, others dropped: record it again"
            )

    earlier = None if force else _of_fewer_seeds(there, arguments, data)
    if earlier and (since := changes(earlier.manifest.inputs, earlier.manifest.data, before)):
        raise UserError(
            f"{', '.join(since)} changed since {name} was recorded, so that seeds cannot be added: "
            f"`workbench record {system} {name} --carry-over` first, or --force to record all"
        )
    with sole_writer(home, [name], lock=f".{name}.lock", instead=""):
        if _manifest_text(_there(system, name, folder)) != _manifest_text(there):
            raise UserError(
                f"{home / name} was replaced while this command started, or a killed run was "
                "replacing it; give the same command again"
            )
        points = home / ".points"
        writable(points)
        under_way = finished.Recording(
            points, rests_on, processes, again=force and not replaces, check=check
        )
        with finished.recording(under_way):
            frame = _frame(figure, arguments, earlier)
        check()
        first = earlier.manifest if earlier else None
        with partial_folder(home, name) as partial:
            path = partial / f"{name}.parquet"
            files.write_parquet(path, frame)
            manifest = Manifest(
                of=name,
                system=system,
                arguments=arguments,
                inputs=before,
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                seconds=round(sum(under_way.seconds.values()) + (first.seconds if first else 0), 1),
                revision=first.revision if first else revision,
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
                carried_over_to=first.carried_over_to if first else None,
            )
            files.write_text(partial / MANIFEST, manifest.to_json())
            put_in_place(partial, home, name)
    return home / name


def _there(system: str, experiment: str, folder: Path) -> Recorded | None:
    """Return what is recorded; None where that is nothing, or damaged."""
    try:
        return load(system, experiment, folder)
    except ValueError:
        return None


def _manifest_text(there: Recorded | None) -> str:
    return there.manifest.to_json() if there else ""


def _extended_at(first: Manifest | None, revision: str | None) -> str | None:
    """Return the later revision by which seeds were added, now or before."""
    if first is None:
        return None
    return revision if revision != first.revision else first.extended_at


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


def _frame(figure: Figure, arguments: Mapping[str, Any], earlier: Recorded | None) -> pl.DataFrame:
    """Return a figure's rows; those of its first seeds as they are recorded."""
    if earlier is None:
        return figure.frame(**arguments)
    number = len(earlier.manifest.seeds)
    others = {"seed": arguments["seed"] + number, "seeds": arguments["seeds"] - number}
    return pl.concat([earlier.frame, figure.frame(**{**arguments, **others})])


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
