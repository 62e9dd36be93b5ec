"""Ends what a measured run started once its driver is gone, however the driver ended.

Run as a process of its own, with a pipe from the driver as its standard input: the pipe ends when
the driver does, even by ``kill -9``. All that Ray starts inherits a mark in its environment. Where
Ray gives a process a title, that overwrites the mark: there the log files that it writes count.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import psutil

MARK = "WORKBENCH_MEASURED"
PREFIX = "workbench-ray-"
_PATIENCE_S = 5.0


def started(mark: str, folder: str) -> list[psutil.Process]:
    """Processes that Ray started: they bear the mark, or write to the folder under Ray's title."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark or _writes(process, folder):
                found.append(process)
    return found


def _writes(process: psutil.Process, folder: str) -> bool:
    """Whether a process with a title of Ray's has a file in the folder open."""
    if not "".join(process.cmdline()[:1]).startswith("ray::"):
        return False
    inside = Path(folder).resolve()
    return any(Path(file.path).is_relative_to(inside) for file in process.open_files())


def end_all(mark: str, folder: str) -> None:
    """Kill them, those that they start meanwhile included."""
    while processes := started(mark, folder):
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=_PATIENCE_S)


def clean_up() -> None:
    """Remove the folders that killed drivers, and their guards, left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        driver = folder.name.removeprefix(PREFIX).partition("-")[0]
        if driver.isdecimal() and not psutil.pid_exists(int(driver)):
            shutil.rmtree(folder, ignore_errors=True)


def main(mark: str, folder: str) -> None:
    """Wait for the driver's end, end the rest and remove its folder."""
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.buffer.read()
    end_all(mark, folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
