"""What results depend on, and whether stored ones are still valid."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import workbench
from workbench import instruction_set, results, systems
from workbench.parameters import Value
from workbench.reproduce import source
from workbench.reproduce.notebooks import Notebook
from workbench.reproduce.origin import VERSIONS_THAT_MATTER
from workbench.results import Manifest


def fingerprint(
    notebook: Notebook, values: Mapping[str, Value], root: Path, versions: Mapping[str, str]
) -> dict[str, str]:
    """Return a SHA-256 of each group of inputs that a notebook's results depend on.

    The groups are the notebook's cells, its parameters (with the content of a data file that one
    names, and what "auto" finds here), the package's source, the tables in ``data/``, the lock
    files, the versions of what is installed and the instruction set of numerical kernels.

    `root` holds ``data/`` and the lock files; `versions` are those of `origin.versions`.
    """
    package = Path(workbench.__file__).parent
    named = [Path(str(value)) for value in values.values() if str(value).endswith(".npz")]
    locks = [
        path
        for pattern in ("*.lock", "pylock*.toml", "requirements*.txt")
        for path in root.glob(pattern)
    ]
    return {
        "notebook": _digest(notebook.cells),
        "parameters": _digest([dict(values), _digests(named, root), _chosen(values)]),
        "package": _digest(_digests(package.rglob("*.py"), package)),
        "data": _digest(_digests([*_tables(root), *_recorded(root)], root)),
        "lock": _digest(_digests(locks, root)),
        **_of_machine(versions),
    }


def fingerprint_of_experiments(
    system: str, root: Path, versions: Mapping[str, str]
) -> dict[str, str]:
    """Return a SHA-256 of each group of inputs that the rows of a system's experiments rest on.

    The groups are the code that may decide a row, the tables in ``data/`` but those of other
    systems, the versions of what is installed and the instruction set.
    """
    others = tuple(one for one in systems.systems() if one != system)
    tables = [one for one in _tables(root) if not one.name.startswith(others)]
    return {
        "code": _digest(source.code(others)),
        "data": _digest(_digests(tables, root)),
        **_of_machine(versions),
    }


def _tables(root: Path) -> list[Path]:
    data = root / "data"
    found = [*data.glob("*.csv")]
    for kept in ("calibration", "profiles", "samples", "testbeds", "traces"):
        found += (data / kept).rglob("*")
    return found


def _recorded(root: Path) -> Iterable[Path]:
    """Recorded results that notebooks show; points of unfinished recordings are hidden."""
    return (root / "data" / "recorded").glob("*/[!.]*/*")


def _of_machine(versions: Mapping[str, str]) -> dict[str, str]:
    that_matter = {name: versions.get(name) for name in ("python", *VERSIONS_THAT_MATTER)}
    return {
        "versions": _digest(that_matter),
        "instruction set": _digest(instruction_set.record(new_process=True)),
    }


def steady(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return the fingerprint of a run: a group that changed meanwhile is empty, matching nothing.

    Nobody knows which parts of the run used the old and which the new source.
    """
    return {group: digest if after[group] == digest else "" for group, digest in before.items()}


def why(folder: Path, kept: Manifest | None, inputs: Mapping[str, str]) -> str:
    """Return why a notebook has to run; empty if its results in `folder` are still valid.

    `kept` is their manifest, None where there is none; `inputs` the current `fingerprint`.
    """
    if kept is None:
        return "no results yet"
    changed = [group for group in inputs if kept.inputs.get(group) != inputs[group]]
    if changed:
        return f"changed: {', '.join(changed)}"
    altered = kept.altered(folder)
    return f"altered or missing: {', '.join(altered)}" if altered else ""


def _chosen(values: Mapping[str, Value]) -> list[str]:
    """Data sets among which ``"auto"`` may choose on this machine."""
    if "auto" not in values.values():
        return []
    from workbench import datasets

    return datasets.available()


def _digests(files: Iterable[Path], root: Path) -> dict[str, str | None]:
    return {
        os.path.relpath(file, root): results.file_digest(file)
        for file in sorted(files)
        if file.is_file()
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
