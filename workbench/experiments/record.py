"""Runs an experiment of hours once and keeps its rows with their provenance.

Every finished point is kept at once, in a hidden folder beside the results, so a recording that was
stopped can be resumed, and one of more seeds computes only those. Points are found by the hash of
their inputs, so none is mixed with those of another version.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from workbench import atomic, instruction_set, paths, results, systems
from workbench.datasets import Dataset
from workbench.experiments import finished
from workbench.experiments.recorded import FOLDER, Manifest
from workbench.names import check_name, choose

Experiment = Callable[..., pl.DataFrame]


def experiments(system: str) -> dict[str, Experiment]:
    """Return the experiments of a system that can be recorded: those with a scale."""
    check_name("system", system, systems.systems())
    module = importlib.import_module(f"workbench.{system}.paper.experiments")
    found = {}
    for name in module.__all__:
        one = getattr(module, name)
        if callable(one) and "scale" in inspect.signature(one).parameters:
            found[name] = one
    return found


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
    """Record an experiment, going on where an earlier run was stopped; return its folder.

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
        Repeat finished points.
    folder
        Of all recorded results.

    Raises
    ------
    ValueError
        A name or a value that is not allowed; seeds of an experiment without any; less than one
        process; a folder that cannot be written, or that another recording writes.
    ExperimentInterrupted
        Ctrl-C; what is finished is kept for the next run.
    """
    from workbench.reproduce import inputs, origin, store

    system = results.system_of(system)
    make = choose("experiment", experiment, experiments(system))
    if processes is not None and processes < 1:
        raise ValueError(f"--processes {processes}: must be at least 1")
    arguments = _arguments(system, make, scale, seeds, options or {})
    versions = origin.versions()
    revision, dirty = origin.revision(paths.ROOT)
    before = inputs.fingerprint_of_experiments(system, paths.ROOT, versions)
    home = folder / system
    with store.sole_writer(home, [experiment]):
        points = home / f".{experiment}.points"
        work = points / _digest(before)
        if force:
            shutil.rmtree(work, ignore_errors=True)
        store.writable(work)
        with _timed(work / "wall_s") as wall_s, finished.recording(work, processes):
            frame = make(**arguments)
        after = inputs.fingerprint_of_experiments(system, paths.ROOT, versions)
        with store.partial_folder(home, experiment) as partial:
            path = partial / f"{experiment}.parquet"
            atomic.write_parquet(path, frame)
            manifest = Manifest(
                system=system,
                experiment=experiment,
                arguments=arguments,
                seeds=_seeds(frame, arguments),
                data=_data(frame),
                inputs=inputs.steady(before, after),
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                wall_s=round(wall_s(), 1),
                machine=_machine(),
                versions=versions,
                instruction_set=instruction_set.record(),
                revision=revision,
                dirty=dirty,
                processes=processes,
                frame=results.file_digest(path) or "",
            )
            atomic.write_text(partial / results.MANIFEST, manifest.to_json())
            store.put_in_place(partial, home, experiment)
        for other in points.iterdir():
            if other != work:
                shutil.rmtree(other, ignore_errors=True)
    return home / experiment


def _arguments(
    system: str, make: Experiment, scale: str, seeds: int | None, options: Mapping[str, str]
) -> dict[str, Any]:
    experiment = make.__name__
    taken = inspect.signature(make).parameters
    known = systems.parameters(system)
    arguments = {name: one.default for name, one in taken.items()}
    arguments["scale"] = known["scale"].check(scale)
    for name, text in options.items():
        check_name(f"parameter of {experiment}", name, [one for one in taken if one in known])
        arguments[name] = known[name].parse(text)
    if seeds is not None:
        if "seeds" not in taken:
            raise ValueError(
                f"--seeds {seeds}: {experiment} runs once; give its seed by -p seed=1"
                if "seed" in taken
                else f"--seeds {seeds}: there is no chance in {experiment}"
            )
        if seeds < 1:
            raise ValueError(f"--seeds {seeds}: must be at least 1")
        arguments["seeds"] = seeds
    return arguments


@contextmanager
def _timed(file: Path) -> Iterator[Callable[[], float]]:
    """Add up the wall seconds of all runs in a file."""
    began_s = time.perf_counter()
    try:
        earlier_s = float(file.read_text())
    except (OSError, ValueError):
        earlier_s = 0.0

    def wall_s() -> float:
        return earlier_s + time.perf_counter() - began_s

    try:
        yield wall_s
    finally:
        atomic.write_text(file, f"{wall_s()}\n")


def _seeds(frame: pl.DataFrame, arguments: Mapping[str, Any]) -> list[int]:
    if "seed" in frame.columns:
        return frame["seed"].unique().sort().to_list()
    return [arguments["seed"]] if "seed" in arguments else []


def _data(frame: pl.DataFrame) -> dict[str, str]:
    """SHA-256 by data set in the frame."""
    from workbench import datasets

    names = frame["dataset"].unique().sort().to_list() if "dataset" in frame.columns else []
    return {name: _digest_of_data(datasets.load(name)) for name in names}


def _digest_of_data(dataset: Dataset) -> str:
    digest = hashlib.sha256()
    for array in (dataset.x_train, dataset.y_train, dataset.x_test, dataset.y_test):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _digest(groups: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(groups, sort_keys=True).encode()).hexdigest()[:16]


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
