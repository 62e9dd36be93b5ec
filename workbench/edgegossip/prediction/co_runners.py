"""A worker process of the jobs that run beside the training; `map_reduce` has the jobs.

All workers are told the same, at about the same time; what a job keeps on the disk is gone when
it ends or is left.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from workbench.edgegossip.prediction.map_reduce import WORKLOADS, Job, Task, text
from workbench.edgegossip.prediction.shuffle import Peers


def serve(folder: Path, commands: int = 0) -> None:
    """Run this worker's share of jobs as standard input says, until it ends.

    It says first which port it listens at, and is told those of all workers, in one line. After
    that a line ``workload bytes seconds`` begins such a job every so many seconds, or as soon as
    the one before has ended, until the next line; ``none 0 0`` rests. Each line is answered by one
    when the job before has been left. A process whose master has gone finds its input at an end.

    Parameters
    ----------
    folder
        Where the jobs keep their files.
    commands
        File descriptor of the input.
    """
    text()
    with Peers() as peers, open(commands, "rb", buffering=0, closefd=False) as lines:
        print(peers.port, flush=True)
        if ports := lines.readline():
            peers.meet([int(port) for port in ports.split()])
        for command in itertools.count():
            if not (line := lines.readline()):
                return
            workload, size, every = line.decode().split()
            print("begun", flush=True)
            if workload != "none":
                worker = _Worker(peers, command, folder, commands)
                worker.repeat(WORKLOADS[workload], int(size), float(every))


@dataclass(frozen=True)
class _Worker:
    """A worker that was given a command."""

    peers: Peers
    command: int
    folder: Path
    commands: int

    def repeat(self, job: Job, size_bytes: int, every_s: float) -> None:
        """Do a job after the other, until there is another command."""
        due_s = time.monotonic()
        for number in itertools.count():
            if self._told(due_s - time.monotonic()):
                return
            due_s = max(due_s, time.monotonic()) + every_s
            with tempfile.TemporaryDirectory(dir=self.folder) as own:
                shuffle = partial(self.peers.exchange, (self.command, number))
                task = Task(size_bytes, self.peers.number, self.peers.count, Path(own), shuffle)
                with contextlib.closing(job(task)) as steps:
                    for _ in steps:
                        if self._told(0):
                            return

    def _told(self, within_s: float) -> bool:
        """Whether there is a command, or no more will come."""
        return bool(select.select([self.commands], [], [], max(0.0, within_s))[0])


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
