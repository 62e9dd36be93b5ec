"""What results depend on, and whether stored ones are still valid."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import workbench
from workbench import instruction_set, results
from workbench.parameters import Value
from workbench.reproduce import source
from workbench.reproduce.notebooks import Notebook
from workbench.reproduce.origin import DECIDE_ROWS, VERSIONS_THAT_MATTER
from workbench.results import Manifest


def fingerprint(
    notebook: Notebook, values: Mapping[str, Value], root: Path, versions: Mapping[str, str]
) -> dict[str, str]:
    """Return a SHA-256 of each group of inputs that a notebook's results depend on.

    The groups are the notebook's cells, its parameters (with the content of a data file that one
    names), the package's source, the tables in ``data/``, the lock files, the versions of what is
    installed and the instruction set of numerical kernels.

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
        "parameters": _digest([dict(values), _digests(named, root)]),
        "package": _digest(_digests(package.rglob("*.py"), package)),
        "data": _digest(_digests([*_tables(root), *_recorded(root)], root)),
        "lock": _digest(_digests(locks, root)),
        **_of_machine(versions, VERSIONS_THAT_MATTER),
    }


def fingerprint_of_rows(
    system: str, module: str, root: Path, versions: Mapping[str, str]
) -> dict[str, str]:
    """Return a SHA-256 of each group of inputs that the rows of an experiment rest on.

    The groups are the code that its `module` imports, the tables in ``data/`` that the system's
    experiments read, the versions of packages that compute, and the instruction set.
    """
    python = ".".join(versions.get("python", "").split(".")[:2])
    return {
        "code": _digest(source.code(module)),
        "data": _digest({path.name: _content(path) for path in _read_by(system, root / "data")}),
        **_of_machine({**versions, "python": python}, DECIDE_ROWS),
    }


def _read_by(system: str, data: Path) -> list[Path]:
    patterns = (
        f"testbeds/{system}.toml",
        f"calibration/{system}.toml",
        f"samples/{system}_*.csv",
        "traces/*.csv",
        "profiles/*.json",
    )
    return [path for pattern in patterns for path in sorted(data.glob(pattern))]


_OF_A_FIT = ("method", "fitted_on", "residuals")


def _content(table: Path) -> object:
    """What rows may rest on: no comments, nor by which code or from what numbers were found."""
    text = table.read_text(encoding="utf-8")
    if table.suffix == ".toml":
        return {name: one for name, one in tomllib.loads(text).items() if name not in _OF_A_FIT}
    if table.suffix == ".json":
        return {name: one for name, one in json.loads(text).items() if name != "traced by"}
    return text


def _tables(root: Path) -> list[Path]:
    data = root / "data"
    found = [*data.glob("*.csv")]
    for kept in ("calibration", "profiles", "samples", "testbeds", "traces"):
        found += (data / kept).rglob("*")
    return found


def _recorded(root: Path) -> Iterable[Path]:
    """Recorded results that notebooks show; points of unfinished recordings are hidden."""
    return (root / "data" / "recorded").glob("*/[!.]*/*")


def _of_machine(versions: Mapping[str, str], that_matter: Iterable[str]) -> dict[str, str]:
    return {
        "versions": _digest({name: versions.get(name) for name in ("python", *that_matter)}),
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


def _digests(files: Iterable[Path], root: Path) -> dict[str, str | None]:
    return {
        os.path.relpath(file, root): results.file_digest(file)
        for file in sorted(files)
        if file.is_file()
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
