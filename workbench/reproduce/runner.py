"""One notebook, from its hidden folder to its place."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench import results
from workbench.parameters import Value
from workbench.reproduce.execution import Kernels, execute
from workbench.reproduce.notebooks import Notebook, read_notebook
from workbench.reproduce.progress import Progress
from workbench.store.folder import failed_copy, partial_folder, put_in_place
from workbench.store.manifest import NAME as MANIFEST
from workbench.store.manifest import Manifest, file_digest
from workbench.store.provenance import machine
from workbench.utils import files, instruction_set


@dataclass(frozen=True)
class NotebookTask:
    """One notebook to run, with everything that its results are recorded with.

    `root` has its data, `output` gets ``NOTEBOOK/``; `versions`, `revision` and `dirty` are from
    `workbench.store.provenance`.
    """

    notebook: Notebook
    values: Mapping[str, Value]
    root: Path
    output: Path
    versions: Mapping[str, str]
    revision: str | None
    dirty: bool | None
    progress: Progress

    def why(self) -> str:
        """Return why the notebook has to run; empty where its stored results are whole already.

        They are if the same commit made them, and nothing had changed since it, from the same
        cells, arguments and versions.
        """
        folder = self.output / self.notebook.name
        kept = results.read_manifest(folder)
        if kept is None:
            return "no results yet"
        if altered := kept.altered(folder):
            return f"altered or missing: {', '.join(altered)}"
        executed = read_notebook(folder / f"{self.notebook.name}.ipynb")
        reasons = {
            "the working tree has changes": bool(self.dirty),
            "another commit": kept.dirty or kept.revision != self.revision,
            "other parameters": kept.arguments != self.values,
            "other versions": kept.versions != self.versions,
            "other cells": executed.source != self.notebook.source,
        }
        return ", ".join(reason for reason, applies in reasons.items() if applies)


def run(task: NotebookTask, kernels: Kernels) -> None:
    """Run one notebook in a hidden folder and move that to its place; in a thread."""
    if kernels.stopping.is_set():
        return
    name, progress = task.notebook.name, task.progress
    progress.begin()
    try:
        with partial_folder(task.output, name) as partial:
            error = execute(task.notebook, task.values, partial, progress, kernels)
            if not error:
                manifest = _manifest(task, partial)
                files.write_text(partial / MANIFEST, manifest.to_json())
                put_in_place(partial, task.output, name)
                progress.end("ran")
            elif kernels.stopping.is_set():
                progress.end("stopped")
            else:
                _keep_failure(task, (partial / f"{name}.ipynb").read_text(encoding="utf-8"))
                progress.end("failed", error)
    except OSError as error:
        if kernels.stopping.is_set():
            progress.end("stopped")
            return
        with contextlib.suppress(OSError):  # where one file cannot be written, this cannot either
            _keep_failure(task, task.notebook.text)
        progress.end("failed", f"{progress.where}: reading or writing failed: {error.strerror}")


def _keep_failure(task: NotebookTask, executed: str) -> None:
    copy = failed_copy(task.output, task.notebook.name)
    copy.unlink(missing_ok=True)  # of an earlier failure, should this one not be written
    files.write_text(copy, executed)


def _manifest(task: NotebookTask, partial: Path) -> Manifest:
    files = sorted(path for path in partial.rglob("*") if path.is_file())
    return Manifest(
        of=task.notebook.name,
        system=results.system_of(task.notebook.name),
        arguments=task.values,
        made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=round(task.progress.elapsed_s, 3),
        revision=task.revision,
        dirty=task.dirty,
        machine=machine(),
        versions=task.versions,
        instruction_set=instruction_set.record(new_process=True),
        outputs={path.relative_to(partial).as_posix(): file_digest(path) or "" for path in files},
    )
