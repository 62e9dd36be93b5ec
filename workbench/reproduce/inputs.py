"""What results depend on, and whether stored ones are still valid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from workbench import results
from workbench.parameters import Value
from workbench.reproduce.notebooks import Notebook
from workbench.store.provenance import (
    VERSIONS_THAT_MATTER,
    digest,
    digests,
    of_machine,
    of_package,
)

_KEPT = ("calibration", "clusters", "measured", "profiles", "samples", "testbeds", "traces")


def fingerprint(
    notebook: Notebook, values: Mapping[str, Value], root: Path, versions: Mapping[str, str]
) -> dict[str, str]:
    """Return a SHA-256 of each group of inputs that a notebook's results depend on.

    The groups are the notebook's cells, its parameters (with the content of a data file that one
    names), the package's source, the tables in ``data/``, the lock files, the versions of what is
    installed and the instruction set of numerical kernels.

    `root` holds ``data/`` and the lock files; `versions` are `provenance.all_versions`.
    """
    return of_run(notebook, values, root) | of_all_runs(root, versions)


def of_run(notebook: Notebook, values: Mapping[str, Value], root: Path) -> dict[str, str]:
    """Return the groups of a fingerprint in which runs of the same moment may differ."""
    named = [Path(str(value)) for value in values.values() if str(value).endswith(".npz")]
    return {
        "notebook": digest(notebook.cells),
        "parameters": digest([dict(values), digests(named, root)]),
    }


def of_all_runs(root: Path, versions: Mapping[str, str]) -> dict[str, str]:
    """Return the other groups of a fingerprint."""
    locks = [
        path
        for pattern in ("*.lock", "pylock*.toml", "requirements*.txt")
        for path in root.glob(pattern)
    ]
    return {
        "package": of_package(),
        "data": digest(digests(_tables(root), root)),
        "lock": digest(digests(locks, root)),
        **of_machine(versions, VERSIONS_THAT_MATTER),
    }


def _tables(root: Path) -> list[Path]:
    data = root / "data"
    tables = [*data.glob("*.csv")]
    for kept in _KEPT:
        tables += (data / kept).rglob("*")
    # Recorded results that notebooks show; points of unfinished recordings are hidden.
    return [*tables, *(data / "recorded").glob("*/[!.]*/*")]


def steady(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return the fingerprint of a run: a group that changed meanwhile is empty, matching nothing.

    Nobody knows which parts of the run used the old and which the new source.
    """
    return {group: sha if after[group] == sha else "" for group, sha in before.items()}


def why(folder: Path, inputs: Mapping[str, str]) -> str:
    """Return why a notebook of these inputs has to run; empty where `folder` is still valid."""
    kept = results.read_manifest(folder)
    if kept is None:
        return "no results yet"
    changed = [group for group in inputs if kept.inputs.get(group) != inputs[group]]
    if changed:
        return f"changed: {', '.join(changed)}"
    altered = kept.altered(folder)
    return f"altered or missing: {', '.join(altered)}" if altered else ""
