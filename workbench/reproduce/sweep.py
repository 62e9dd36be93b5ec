"""One call of `workbench sweep`: a notebook at every point of a grid, what it keeps in one frame.

A sweep's folder::

    points.parquet, .csv         a row per point: parameters, status, seconds, reason, folder
    frames/NAME.parquet, .csv    a frame that the notebook keeps, of all finished points
    points/KEY/                  results of one point, as `workbench reproduce` keeps them

`KEY` is a hash of all parameters, so points of other sweeps in the same folder stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import results
from workbench.parameters import DRIVER_PARAMETER
from workbench.reproduce.driver import carry_out, one_interrupt, plan
from workbench.reproduce.elsewhere import carry_out_elsewhere
from workbench.reproduce.grid import points
from workbench.reproduce.notebooks import Notebook, find, notebooks_folder, read_notebook
from workbench.reproduce.points import (
    FRAMES,
    POINTS,
    Point,
    Swept,
    collected,
    print_swept,
    write,
)
from workbench.reproduce.progress import shown
from workbench.store.folder import clean, sole_writer
from workbench.store.provenance import digest
from workbench.utils import parallel
from workbench.utils.checks import UserError
from workbench.utils.files import expanded

if TYPE_CHECKING:
    from rich.console import Console


def sweep(
    name: str,
    given: Mapping[str, str],
    *,
    scale: str | None = None,
    processes: int | None = None,
    address: str | None = None,
    output: Path | None = None,
    force: bool = False,
    console: Console | None = None,
) -> Swept:
    """Run a notebook at every point of a grid, and keep what it keeps as one frame each.

    Finished points are kept, each at once, and not run again while nothing that they rest on has
    changed; failed ones are. Ctrl-C and other interrupts end all kernels.

    The arguments are those of the command; `given` are values of each parameter as the user writes
    them (`workbench.reproduce.grid`). Points that run beside others compute on one core each;
    machines of a cluster need the same package, data and versions.

    Raises UserError: an unknown notebook or parameter, a value that is not allowed, a notebook that
    keeps nothing, a folder that cannot be written or that another run is writing, no such cluster.
    """
    import joblib
    from rich.console import Console

    console = console or Console()
    if processes is not None and processes < 1:
        raise UserError(f"--processes {processes}: must be at least 1")
    notebook = _notebook(name)
    grid = points(notebook, scale, given)
    if not notebook.keeps:
        raise UserError(
            f'{notebook.path.name} keeps no results: declare {DRIVER_PARAMETER}: str = "" in its '
            "parameters cell, and keep frames by Results(NAME, output).keep"
        )
    output = output or results.default_folder().parent / "sweeps" / notebook.name
    output = expanded(output).resolve()
    beside = min(len(grid), processes or joblib.cpu_count())
    alone = parallel.ONE_CORE | {"LOKY_MAX_CPU_COUNT": "1"}
    with one_interrupt(), sole_writer(output, [FRAMES]):
        runs = [(notebook, values, output / POINTS / digest(values)[:16]) for _, values in grid]
        for _, _, folder in runs:
            folder.mkdir(parents=True, exist_ok=True)
            clean(folder, [notebook.name])
        tasks = plan(runs, notebook.path.parent.parent, force)
        made = [Point(point, task) for (point, _), task in zip(grid, tasks, strict=True)]
        waiting = sum(not point.finished for point in made)
        console.print(f"{waiting} of {len(made)} points of {notebook.name} to run", soft_wrap=True)
        progress = {point.name: point.task.progress for point in made}
        try:
            with shown(console, progress) as refresh:
                if address is None:
                    interrupted = carry_out(tasks, beside, refresh, alone if beside > 1 else {})
                else:
                    interrupted = carry_out_elsewhere(tasks, address, processes, refresh, alone)
        finally:
            for point in made:
                with contextlib.suppress(OSError):  # of one that left nothing
                    point.task.output.rmdir()
        table, frames, faults = collected(made, output)
        write(output, table, frames)
    swept = Swept(table, frames, interrupted)
    print_swept(console, swept, made, output, faults)
    return swept


def _notebook(name: str) -> Notebook:
    path = expanded(name)
    if path.suffix == ".ipynb" and path.is_file():
        return read_notebook(path.resolve())
    (notebook,) = find(notebooks_folder(), [name])
    return notebook
