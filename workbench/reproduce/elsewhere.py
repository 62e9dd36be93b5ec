"""Notebooks on the machines of a Ray cluster, whose results come back to this one."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from workbench.reproduce.execution import Kernels
from workbench.reproduce.progress import Progress, Status
from workbench.reproduce.runner import NotebookTask, run
from workbench.store import provenance
from workbench.store.folder import failed_copy, partial_folder, put_in_place
from workbench.utils import files, parallel


class Away(NamedTuple):
    """What became of a notebook elsewhere; its files by their path below the output."""

    status: Status
    wall_s: float
    message: str
    files: Mapping[str, bytes]


def carry_out_elsewhere(
    tasks: Sequence[NotebookTask],
    address: str,
    at_once: int | None,
    refresh: Callable[[], None],
    environment: Mapping[str, str],
) -> bool:
    """Run the waiting tasks on a cluster; return whether an interrupt ended them early.

    Each machine needs the same package, data and versions as this one; a task on another fails.
    """
    waiting = [task for task in tasks if task.progress.status == "waiting"]
    calls = [(task, task.root == files.ROOT, environment) for task in waiting]
    try:
        with closing(parallel.as_finished(run_here, calls, at_once, address)) as finished:
            for at, away in finished:
                _bring_home(waiting[at], away)
                refresh()
    except KeyboardInterrupt:
        return True
    return False


def run_here(task: NotebookTask, in_clone: bool, environment: Mapping[str, str]) -> Away:
    """Run a notebook in a folder of its own on this machine, unless its versions are others.

    `in_clone`: the notebook is one of the repository's, which this machine has elsewhere, perhaps.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-sweep-") as folder:
        root = files.ROOT if in_clone else task.root
        place = root / task.notebook.path.parent.relative_to(task.root)
        if not place.is_dir():
            place = Path(folder)
        here = replace(
            task,
            notebook=replace(task.notebook, path=place / task.notebook.path.name),
            root=root,
            output=Path(folder),
            progress=Progress(task.notebook.code_cells),
        )
        if other := _differing(task):
            told = f"{platform.node()} differs from the machine that asked: {', '.join(other)}"
            return Away("failed", 0.0, told, {})
        run(here, Kernels(environment))
        made = [path for path in Path(folder).rglob("*") if path.is_file()]
        content = {path.relative_to(folder).as_posix(): path.read_bytes() for path in made}
        return Away(here.progress.status, here.progress.wall_s, here.progress.message, content)


def _differing(task: NotebookTask) -> list[str]:
    """Name what this machine has another version of: packages, the commit of the workbench."""
    versions = provenance.all_versions()
    other = [name for name in task.versions if task.versions[name] != versions.get(name)]
    revision, _ = provenance.revision(files.ROOT)
    if task.root == files.ROOT and None not in (revision, task.revision):
        other += ["commit"] if revision != task.revision else []
    return other


def _bring_home(task: NotebookTask, away: Away) -> None:
    name = task.notebook.name
    with partial_folder(task.output, name) as partial:
        for path, content in away.files.items():
            files.write_bytes(partial / path, content)
        if away.status == "ran":
            put_in_place(partial / name, task.output, name)
        elif (copy := failed_copy(partial, name)).exists():
            copy.replace(failed_copy(task.output, name))
    task.progress.wall_s, task.progress.message = away.wall_s, away.message
    task.progress.status = away.status
