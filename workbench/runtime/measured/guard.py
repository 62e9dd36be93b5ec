"""Ends what Ray started for a session once its driver is gone, however the driver ended.

Run as a process of its own, with a pipe from the driver as its standard input: the pipe ends when
the driver does, even by ``kill -9``. Ray's servers and workers end by themselves then; its agents
do not. All that Ray starts inherits the session's folder in its environment; where Ray gives a
process a title, that overwrites the environment, and the log files that it writes there count.

Driver and guard hold a lock on the folder. The lock goes with the last of them, also if both are
killed at once; then the next session that starts ends what they left.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import sys
from pathlib import Path
from typing import IO

import psutil

FOLDER = "WORKBENCH_MEASURED"
"""The environment variable that holds the folder of a session."""
PREFIX = "workbench-ray-"
INSIDE = "ray"
"""Ray's own folder in that of a session, which only its user may enter."""
_PATIENCE_S = 5.0


def end_all(folder: str) -> None:
    """Kill what was started for a session, and what that starts meanwhile; remove the folder."""
    while processes := [each for each in psutil.process_iter() if _belongs(each, folder)]:
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=_PATIENCE_S)
    shutil.rmtree(folder, ignore_errors=True)


def _belongs(process: psutil.Process, folder: str) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        if process.environ().get(FOLDER) == folder:
            return True
        if "".join(process.cmdline()[:1]).startswith("ray::"):
            inside = Path(folder).resolve()
            return any(Path(file.path).is_relative_to(inside) for file in process.open_files())
    return False


def lock(folder: Path) -> IO[str]:
    """Lock a session's folder for as long as the file that is returned is open."""
    file = (folder / "lock").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    (folder / INSIDE).mkdir()  # after the lock, so that `clean_up` finds it locked
    return file


def clean_up(base: Path) -> None:
    """End the processes of sessions whose driver and guard were both killed."""
    for inside in base.glob(f"{PREFIX}*/{INSIDE}"):
        folder = inside.parent
        with contextlib.suppress(OSError), (folder / "lock").open() as file:  # or another user's
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end_all(str(folder))


def main(folder: str) -> None:
    """Wait for the driver's end, and end the rest."""
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.buffer.read()
    end_all(folder)


if __name__ == "__main__":
    main(sys.argv[1])
