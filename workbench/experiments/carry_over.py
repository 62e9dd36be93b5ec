"""Shows that a recording would come out the same with the present code, and stamps it.

Code changes more often than results do. Where a figure's rows at scale ``smoke`` are the same, bit
for bit, made by the recording's revision and by the present one, the recording stands for both.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from workbench import results, systems
from workbench.experiments.recorded import FOLDER, changed, load
from workbench.store import provenance
from workbench.store.manifest import NAME as MANIFEST
from workbench.store.manifest import Manifest
from workbench.utils import files
from workbench.utils.checks import UserError, choose


def carry_over(system: str, name: str, *, root: Path = files.ROOT, folder: Path = FOLDER) -> str:
    """Compare a figure's rows at scale ``smoke`` by two revisions; stamp its recording if equal.

    Both revisions run the command `workbench record`, with the recording's parameters other than
    seed and data set, in a checkout of their own, with the present Python, packages, machine and
    data sets, so these have to be those of the recording. The stamped manifest has the present
    inputs, so that nothing counts as changed, and names this revision in ``carried_over_to``.

    Parameters
    ----------
    system, name
        Of a recorded figure, as for `record`.
    root
        The git checkout whose HEAD is the present revision.

    Returns what was done, as a sentence.

    Raises
    ------
    UserError
        There is no recording; it or the present code cannot be traced to a commit of main; more
        has changed than code and tables; a revision does not run; or the rows differ, with the
        first column that does.
    """
    system = results.system_named(system)
    figure = choose("experiment", name, systems.recordable(system))
    recording = load(system, name, folder)
    if recording is None:
        raise UserError(f"{system} {name} has no recording in {folder}")
    made = recording.manifest
    if not (since := changed(recording, figure)):
        return f"{name}: nothing has changed since it was recorded"
    if made.revision is None or not recording.traceable:
        raise UserError(
            f"{name} was recorded from a working tree with changes, so no commit has its code: "
            f"record it again by `workbench record {system} {name} --force`"
        )
    if figure.timings:
        raise UserError(
            f"{name} holds timings, of which no two runs are the same: `workbench record {system} "
            f"{name} --force` makes it again"
        )
    if others := [what for what in since if what not in ("code", "tables in data/")]:
        raise UserError(
            f"{', '.join(others)} changed since {name} was recorded, and both runs would use what "
            "is here now: carry it over where that is as it was, or record it again by `workbench "
            f"record {system} {name} --force`"
        )
    if why := provenance.untraceable(root, "data/recorded"):
        raise UserError(f"{why}, so {name} cannot be carried over to it")
    head, _ = provenance.revision(root, "data/recorded")
    assert head is not None
    for revision in filter(None, (made.revision, made.extended_at)):
        ancestor = ["git", "-C", str(root), "merge-base", "--is-ancestor", revision, head]
        if _run(ancestor).returncode == 1:
            raise UserError(
                f"{name} was recorded at {revision[:8]}, which is not on the branch main: record "
                f"it again by `workbench record {system} {name} --force`"
            )
    usual = figure.parameters()
    options = [
        f"-p{own}={value}"
        for own, value in made.arguments.items()
        if own not in ("scale", "seed", "seeds", "dataset") and usual.get(own) != value
    ]
    before, now = (
        _smoke_rows(root, revision, system, name, options) for revision in (made.revision, head)
    )
    if difference := _difference(before, now):
        raise UserError(
            f"{name} does not carry over from {made.revision[:8]} to {head[:8]}: {difference}; "
            f"record it again by `workbench record {system} {name} --force`"
        )
    if Manifest.read(folder / system / name).to_json() != made.to_json():
        raise UserError(f"{name} was recorded again meanwhile; give the same command again")
    stamped = dataclasses.replace(made, inputs=figure.rests_on(system), carried_over_to=head)
    files.write_text(folder / system / name / MANIFEST, stamped.to_json())
    return (
        f"{name}: {now.height} rows at scale smoke are the same, bit for bit, at "
        f"{made.revision[:8]} and {head[:8]}"
    )


def _smoke_rows(
    root: Path, revision: str, system: str, name: str, options: Sequence[str]
) -> pl.DataFrame:
    """Record a figure at scale ``smoke`` in a checkout of a revision."""
    with tempfile.TemporaryDirectory() as place:
        checkout, output = Path(place) / "checkout", Path(place) / "output"
        git = ["git", "-C", str(root), "worktree"]
        added = _run([*git, "add", "--detach", str(checkout), revision])
        if added.returncode:
            raise UserError(f"git has no revision {revision[:8]}: {added.stderr.strip()}")
        try:
            command = [sys.executable, "-m", "workbench.cli", "record", system, name]
            command += ["--scale", "smoke", "--processes", "1", "--output", str(output), *options]
            run = _run(command, cwd=checkout, env=os.environ | {"PYTHONPATH": str(checkout)})
        finally:
            _run([*git, "remove", "--force", str(checkout)])
        if run.returncode:
            last = run.stderr.strip().rpartition("\n")[2]
            raise UserError(f"{name} does not run at {revision[:8]}: {last}")
        return pl.read_parquet(output / system / name / f"{name}.parquet")


def _run(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, **how)


def _difference(before: pl.DataFrame, now: pl.DataFrame) -> str:
    """Say in what two frames differ; nothing if they are the same, bit for bit."""
    if before.schema != now.schema:
        return f"columns {', '.join(before.columns)} became {', '.join(now.columns)}"
    if before.height != now.height:
        return f"{before.height} rows became {now.height}"
    for column in before.columns:
        if not before[column].equals(now[column], null_equal=True):
            row = before[column].ne_missing(now[column]).arg_true()[0]
            return f"{column} in row {row} was {before[column][row]} and is {now[column][row]}"
    return ""
