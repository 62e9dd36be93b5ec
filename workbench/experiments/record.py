"""Runs an experiment of hours once and keeps its rows with their provenance.

Every finished point is kept at once, in a hidden folder beside the results, so a recording that was
stopped can be resumed, one of more seeds computes only those, and what other experiments of the
same module have computed is not computed again. Points are found by the hash of their inputs, so
none is mixed with those of another version.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from workbench import atomic, instruction_set, paths, results, systems
from workbench.errors import UserError
from workbench.experiments import finished
from workbench.experiments.data import data_set, digest
from workbench.experiments.recorded import FOLDER, Manifest, changes, load
from workbench.names import check_name, choose

Experiment = Callable[..., pl.DataFrame]


def experiments(system: str) -> dict[str, Experiment]:
    """Return the experiments of a system that can be recorded."""
    check_name("system", system, systems.systems())
    module = importlib.import_module(f"workbench.{system}.paper.experiments")
    return {name: getattr(module, name) for name in module.RECORDED}


def unrecorded(system: str, folder: Path = FOLDER) -> list[str]:
    """Return the experiments of a system that have no recording, at any scale."""
    system = results.system_named(system)
    return [name for name in experiments(system) if load(system, name, folder) is None]


def record(
    system: str,
    experiment: str,
    *,
    scale: str = "paper",
    seeds: int | None = None,
    processes: int | None = None,
    options: Mapping[str, str] | None = None,
    force: bool = False,
    folder: Path = FOLDER,
) -> Path:
    """Record an experiment, going on where an earlier run was stopped.

    Parameters
    ----------
    system
        ``"edgegossip"``, or its notebook, ``"03_edgegossip"``.
    experiment
        A name in `experiments`.
    seeds
        How many trainings of each kind; the scale's by default.
    processes
        How many run points in parallel; one per core by default. Timed points run one after the
        other in any case.
    options
        Further arguments of the experiment, as the user writes them.
    force
        Replace a recording made with other arguments; else repeat finished points.
    folder
        Of all recorded results.

    Returns
    -------
    pathlib.Path
        The folder that holds rows and manifest.

    Raises
    ------
    ValueError
        A name or a value that is not allowed; seeds of an experiment without any; less than one
        process; a folder that cannot be written, or that another recording writes, or that holds
        one made with other arguments; or what it rests on changed while it ran.
    ExperimentInterrupted
        Ctrl-C; what is finished is kept for the next run.
    """
    from workbench.reproduce import inputs, origin, store

    system = results.system_named(system)
    make = choose("experiment", experiment, experiments(system))
    module = make.__module__
    if processes is not None and processes < 1:
        raise UserError(f"--processes {processes}: must be at least 1")
    arguments = _arguments(system, make, scale, seeds, options or {})
    if instruction_set.late:
        late = ", ".join(f"{name} is {how}" for name, how in instruction_set.late.items())
        raise UserError(f"{late}: rows would have other bits; use the command `workbench record`")
    home = folder / system
    replaces = _replaces(system, experiment, arguments, folder)
    if replaces and not force:
        raise UserError(f"{home / experiment} {replaces}; --force replaces it")
    offered = importlib.import_module(f"workbench.{system}.paper.experiments").RECORDED[experiment]
    versions = origin.versions()
    revision, dirty = origin.revision(paths.ROOT, "data/recorded")
    before = inputs.fingerprint_of_rows(system, module, paths.ROOT, versions)
    asked = {
        data_set(scale, one, arguments["dataset"], at_default=offered.at_default)
        for one in offered.data
    }
    data = {source: digest(source) for source in sorted(asked)}
    if not force and _stands(system, experiment, (arguments, before, data), folder):
        print(f"{experiment} is already recorded; nothing was run", file=sys.stderr)
        return home / experiment

    def check() -> None:
        now = inputs.fingerprint_of_rows(system, module, paths.ROOT, versions)
        if changed := changes(before, data, now):
            raise UserError(
                f"{', '.join(changed)} changed while {experiment} ran; points finished before are "
                "kept for that version, others dropped: record it again"
            )

    with store.sole_writer(home, [experiment], lock=f".{experiment}.lock", instead=""):
        # Experiments of a module share trainings, and rest on the same code.
        work = _points(home / f".{module.rpartition('.')[2]}.points", before, data)
        again = _again(work, experiment) if force and not replaces else nullcontext(work)
        with again as points, finished.recording(points, processes, check) as under_way:
            frame = make(**arguments)
        check()
        frames = {experiment: frame}
        frames |= {name: follows(frame) for name, follows in offered.derived.items()}
        with store.partial_folder(home, experiment) as partial:
            files = {name: partial / f"{name}.parquet" for name in frames}
            for name, path in files.items():
                atomic.write_parquet(path, frames[name])
            manifest = Manifest(
                system=system,
                experiment=experiment,
                module=module,
                arguments=arguments,
                seeds=_seeds(frame, arguments),
                data=data,
                inputs=before,
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                points_s=round(sum(under_way.seconds.values()), 1),
                machine=_machine(),
                versions=versions,
                instruction_set=instruction_set.record(),
                revision=revision,
                dirty=dirty,
                processes=processes,
                frames={name: results.file_digest(path) or "" for name, path in files.items()},
            )
            atomic.write_text(partial / results.MANIFEST, manifest.to_json())
            store.put_in_place(partial, home, experiment)
    return home / experiment


def _stands(
    system: str, experiment: str, rests_on: tuple[Mapping[str, Any], ...], folder: Path
) -> bool:
    """Whether what is recorded is of these arguments, inputs and data."""
    try:
        found = load(system, experiment, folder)
    except UserError:
        return False
    if found is None:
        return False
    return (found.manifest.arguments, found.manifest.inputs, found.manifest.data) == rests_on


def _points(points: Path, inputs: Mapping[str, str], data: Mapping[str, str]) -> Path:
    """Return the folder of the points that rest on these inputs; say if there are others."""
    from workbench.reproduce import store

    groups = {**inputs, **{f"data set {source}": one for source, one in data.items()}}
    name = hashlib.sha256(json.dumps(groups, sort_keys=True).encode()).hexdigest()[:16]
    count, changed = 0, set[str]()
    for other in points.glob("*/inputs"):
        try:
            kept = json.loads(other.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        same_kind = isinstance(kept, dict) and kept.keys() == groups.keys()
        if other.parent.name != name and same_kind:
            count += len(list(other.parent.glob("*.json")))
            changed |= {group for group in groups if kept[group] != groups[group]}
    if count:
        which = "1 finished point is" if count == 1 else f"{count} finished points are"
        what = ", ".join(sorted(changed))
        print(f"{which} of another version (changed: {what}) and not used", file=sys.stderr)
    work = points / name
    store.writable(work)
    atomic.write_text(work / "inputs", json.dumps(groups, indent=1) + "\n")
    return work


@contextmanager
def _again(work: Path, experiment: str) -> Iterator[Path]:
    """Yield a folder for points that are computed again; each then replaces the one in `work`.

    Those that other experiments have computed stay.
    """
    folder = work / f".{experiment}"

    def replace() -> None:
        for point in folder.glob("*.json"):
            point.replace(work / point.name)

    folder.mkdir(exist_ok=True)
    replace()  # what an earlier run left when it was killed
    try:
        yield folder
    finally:
        replace()


def _replaces(system: str, experiment: str, arguments: Mapping[str, Any], folder: Path) -> str:
    """Say what other recording stands there; nothing if this one is the same or has more seeds."""
    try:
        found = load(system, experiment, folder)
    except ValueError:
        return ""
    if found is None:
        return ""
    there, seeds = dict(found.manifest.arguments), len(found.manifest.seeds)
    wanted = dict(arguments)
    if found.scale != "paper" and wanted["scale"] == "paper":
        return ""
    if (wanted.get("seeds") or 0) >= seeds:
        there.pop("seeds", None)
        wanted.pop("seeds", None)
    return "" if there == wanted else f"holds another recording: {found}"


def _arguments(
    system: str, make: Experiment, scale: str, seeds: int | None, options: Mapping[str, str]
) -> dict[str, Any]:
    experiment = make.__name__
    taken = inspect.signature(make).parameters
    known = systems.parameters(system)
    arguments = {name: one.default for name, one in taken.items()}
    arguments["scale"] = known["scale"].check(scale)
    for name, text in options.items():
        if name == "scale":
            raise UserError(f"-p scale={text}: give the scale as --scale {text}")
        check_name(f"parameter of {experiment}", name, [one for one in taken if one in known])
        arguments[name] = known[name].parse(text)
    if seeds is not None:
        if "seeds" not in taken:
            raise UserError(
                f"--seeds {seeds}: {experiment} runs once; give its seed by -p seed=1"
                if "seed" in taken
                else f"--seeds {seeds}: there is no chance in {experiment}"
            )
        if seeds < 1:
            raise UserError(f"--seeds {seeds}: must be at least 1")
        arguments["seeds"] = seeds
    return arguments


def _seeds(frame: pl.DataFrame, arguments: Mapping[str, Any]) -> list[int]:
    if "seed" in frame.columns:
        return frame["seed"].unique().sort().to_list()
    return [arguments["seed"]] if "seed" in arguments else []


def _machine() -> dict[str, str]:
    import psutil

    gib = psutil.virtual_memory().total / 2**30
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{gib:.0f} GiB",
        "system": platform.platform(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
