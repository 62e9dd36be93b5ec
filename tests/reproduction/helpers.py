"""Notebooks to run, and what became of them."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat as untyped_nbformat
import psutil

from tests.test_parallel import wait_for
from workbench.reproduction.reproduce import Report, reproduce

nbformat: Any = untyped_nbformat


PARAMETERS = """\
scale: str = "smoke"
seed: int = 0
batch_size: int = 32
bandwidth_mbps: float = 1000
output: str = ""
"""
KEPT = "from workbench.reproduction.notebook import Results\nimport polars as pl\n"
KEPT += 'Results("x", output).keep("early", pl.DataFrame({"x": [1]}))'
Finished = tuple[Path, Report, str]


def write_notebook(path: Path, *cells: str, parameters: str = PARAMETERS) -> Path:
    """Write a notebook: a parameters cell, if any, then `cells`; those with # are headings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    v4 = nbformat.v4
    made = [
        v4.new_markdown_cell(cell) if cell.startswith("# ") else v4.new_code_cell(cell)
        for cell in cells
    ]
    if parameters:
        made.insert(0, v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.write_text(nbformat.writes(v4.new_notebook(cells=made, metadata={"kernelspec": kernel})))
    return path


def run(root: Path, *names: str, **options: Any) -> tuple[Report, str]:
    """Run the notebooks of `root` with results in `root`/out; return the report and all lines."""
    options.setdefault("output", root / "out")
    with contextlib.redirect_stdout(io.StringIO()) as text:
        report = reproduce(names, notebooks=root / "notebooks", **options)
    return report, text.getvalue()


def statuses(report: Report) -> dict[str, str]:
    return {name: outcome.status for name, outcome in report.outcomes.items()}


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def kernels_below(pid: int) -> list[int]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [
            child.pid
            for child in psutil.Process(pid).children(recursive=True)
            if "ipykernel_launcher" in " ".join(child.cmdline())
        ]
    return []


def gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@contextlib.contextmanager
def stuck(
    is_stuck: Callable[[], bool], go: Path, *command: str, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a command of `workbench` until its notebook waits for the file `go`, made at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench.cli", *command],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for(lambda: is_stuck() or process.poll() is not None, seconds=600)
        assert process.poll() is None, process.communicate()[0]
        yield process
    finally:
        go.touch()
        process.kill()
        process.communicate()
