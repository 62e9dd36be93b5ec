"""Ends what a measured run started once its driver is gone, however the driver ended.

Run as a process of its own, with a pipe from the driver as its standard input: the pipe ends when
the driver does, even by ``kill -9``. All that Ray starts inherits a mark in its environment. Where
Ray gives a process a title, that overwrites the mark: there the log files that it writes count.

Driver and guard hold a lock on a file of the run's folder. The lock goes with the last of them,
also if both are killed at once; then the next run that starts ends what they left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from pathlib import Path

import psutil

MARK = "WORKBENCH_MEASURED"
PREFIX = "workbench-ray-"
INSIDE = "ray"
"""Where Ray's own folder is in that of a run, which nobody else may enter."""
_LOCK = "lock"
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
    """Kill them, those that they start meanwhile included, except for this process."""
    while processes := [each for each in started(mark, folder) if each.pid != os.getpid()]:
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=_PATIENCE_S)


def lock(folder: Path, mark: str) -> int:
    """Lock a run's folder; return the file that holds the lock for as long as it is open."""
    new = folder / f"{_LOCK}.new"
    new.write_text(mark)
    file = os.open(new, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    new.rename(folder / _LOCK)  # which is locked whenever it can be seen
    return file


def clean_up(base: Path) -> None:
    """End what killed drivers left together with their guards, and remove their folders."""
    for held in base.glob(f"{PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError), held.open() as file:  # locked, or another user's
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end_all(file.read(), str(held.parent))
            shutil.rmtree(held.parent, ignore_errors=True)


def main(mark: str, folder: str) -> None:
    """Wait for the driver's end, end the rest and remove its folder."""
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.buffer.read()
    end_all(mark, folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
