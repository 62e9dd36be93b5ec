"""What a process and all that it started use, ended ones included.

Linux tells whom each thread has started, so a reading costs as much as there are threads in the
tree, whatever else runs. Where it does not (built without ``CONFIG_PROC_CHILDREN``), and on other
systems, psutil asks every process of the machine for its parent.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

_GONE = (FileNotFoundError, ProcessLookupError)  # a process, or a thread, that has ended


class Used(NamedTuple):
    """Seconds of a core, and bytes read from disks and written to them."""

    busy_s: float = 0.0
    disk_bytes: float = 0.0


def process_tree(pid: int) -> Callable[[], Used]:
    """Return what reads how much a process and all that it started have used.

    Each process counts with its children that have ended. So the sum over those alive is that of
    the whole tree, and no step down when one ends. When the first itself has ended, the last sum
    stays.

    Raises
    ------
    ValueError
        There is no such process.
    """
    last = Used()
    try:
        alive = _alive_by_kernel(pid) if _tells_children(pid) else _alive_by_psutil(pid)
    except (*_GONE, psutil.NoSuchProcess):
        raise ValueError(f"there is no process {pid}; exclude one that runs") from None

    def read() -> Used:
        nonlocal last
        try:
            each = alive()
        except (*_GONE, psutil.NoSuchProcess):
            return last
        last = Used(sum(one.busy_s for one in each), sum(one.disk_bytes for one in each))
        return last

    return read


def _tells_children(pid: int) -> bool:
    return Path(f"/proc/{pid}/task/{pid}/children").exists()


def _alive_by_kernel(pid: int) -> Callable[[], list[Used]]:
    ticks_per_s = os.sysconf("SC_CLK_TCK")

    def used(one: int) -> Used:
        try:
            busy_s = sum(map(int, _stat(one)[11:15])) / ticks_per_s
        except _GONE:
            return Used()
        return Used(busy_s, _disk_bytes(one))

    def alive() -> list[Used]:
        if _stat(pid)[19] != began:
            raise ProcessLookupError(pid)  # another has its number by now
        found = [pid]
        for one in found:  # and those that are found meanwhile
            found += _children(one)
        return [used(one) for one in found]

    began = _stat(pid)[19]
    return alive


def _stat(pid: int) -> list[str]:
    """Fields of proc(5) from the third, the state, on: behind the name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _disk_bytes(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except (*_GONE, PermissionError):
        return 0.0
    io = dict(line.split(": ") for line in lines)
    return float(io["read_bytes"]) + float(io["write_bytes"])


def _children(pid: int) -> list[int]:
    found: set[str] = set()  # a child passes to another thread when its own ends
    with contextlib.suppress(*_GONE):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(*_GONE):
                found.update((thread / "children").read_text().split())
    return [*map(int, found)]


def _alive_by_psutil(pid: int) -> Callable[[], list[Used]]:
    root = psutil.Process(pid)

    def used(process: psutil.Process) -> Used:
        try:
            with process.oneshot():
                # User and system, its own and its children's.
                busy_s = sum(process.cpu_times()[:4])
                io = process.io_counters() if hasattr(process, "io_counters") else None
        except psutil.NoSuchProcess:
            return Used()
        except psutil.AccessDenied:
            return Used(busy_s)
        return Used(busy_s, float(io.read_bytes + io.write_bytes) if io else 0.0)

    return lambda: [used(one) for one in (root, *root.children(recursive=True))]
