"""A monitor's reading while other processes lie idle on the machine: what it costs, two ways.

``python benchmarks/monitor_reading.py`` starts idle processes that belong to nobody's training,
and prints the CPU time of one reading of this machine's counters, taking turns: by the kernel's
lists of children, and by psutil, which asks every process for its parent. Status 1 if the first
takes half as much again with all of them as with none.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import psutil

from workbench.edgegossip.prediction.host_counters import host_counters

IDLE = (0, 200, 400)
ROUNDS, READINGS = 9, 40
MOST = 1.5
READ = host_counters()
START = "for _ in $(seq {}); do sleep 3600 >/dev/null 2>&1 & echo $!; done"


def main() -> int:
    sources = {"kernel": READ, "psutil": by_psutil}
    idle: list[int] = []
    found: list[float] = []
    try:
        for count in IDLE:
            # Of a shell that ends, so that they are nobody's children.
            start = START.format(count - len(idle))
            idle += map(int, subprocess.check_output(["sh", "-c", start], text=True).split())
            turns = [{name: cpu_ms(read) for name, read in sources.items()} for _ in range(ROUNDS)]
            kernel, plain = (statistics.median(turn[name] for turn in turns) for name in sources)
            found.append(kernel)
            print(
                f"{len(psutil.pids()):4} processes: psutil {plain:6.3f} ms, kernel's lists "
                f"{kernel:6.3f} ms a reading: ratio {plain / kernel:.1f}"
            )
    finally:
        for pid in idle:
            os.kill(pid, signal.SIGTERM)
    return int(found[-1] > MOST * found[0])


def by_psutil() -> object:
    """Read this machine's counters where the kernel lists no children."""
    with mock.patch.object(Path, "exists", return_value=False):
        return READ()


def cpu_ms(read: Callable[[], object]) -> float:
    began_s = time.process_time()
    for _ in range(READINGS):
        read()
    return (time.process_time() - began_s) / READINGS * 1e3


if __name__ == "__main__":
    sys.exit(main())
