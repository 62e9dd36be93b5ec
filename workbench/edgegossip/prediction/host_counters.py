"""Counters of this machine, by psutil: on Linux from /proc, as Han et al. 2021 (Sec. 3.3).

The training task's part is that of a process and all its descendants. Linux lists each thread's
children, so a reading costs as much as there are threads in the tree; elsewhere psutil asks every
process of the machine for its parent.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from workbench.edgegossip.prediction.predictor import Contention
from workbench.utils.checks import UserError

_NETWORK, _DISKS = Path("/sys/class/net"), Path("/sys/block")
_GONE = (FileNotFoundError, ProcessLookupError)  # a process, or a thread, that has ended


@dataclass(frozen=True)
class Counters:
    """A node's counters; only differences mean anything."""

    at_s: float  # of a steady clock
    cores_s: float  # of all cores together
    busy_s: float  # of all cores while not idle
    network_bytes: float = 0.0  # sent and received
    disk_bytes: float = 0.0  # read and written
    own_busy_s: float = 0.0  # of the training task, as the next two
    own_network_bytes: float = 0.0
    own_disk_bytes: float = 0.0


Source = Callable[[], Counters]
"""Reads the counters now."""


def between(earlier: Counters, later: Counters) -> Contention:
    """Return the mean contention from one reading to the next."""
    gone = Counters(*(b - a for a, b in zip(astuple(earlier), astuple(later), strict=True)))
    if not (gone.at_s > 0 and gone.cores_s > 0):
        raise UserError(
            f"{gone.at_s:g} s between two readings, in which the cores counted {gone.cores_s:g} s; "
            "contention needs some time: read less often"
        )
    core = _others(gone.busy_s, gone.own_busy_s) / gone.cores_s
    network_bytes = _others(gone.network_bytes, gone.own_network_bytes)
    disk_bytes = _others(gone.disk_bytes, gone.own_disk_bytes)
    return Contention(min(core, 1.0), network_bytes / gone.at_s, disk_bytes / gone.at_s)


def _others(everybody: float, own: float) -> float:
    # A task's own counters fall when one of its processes ends without being waited for. A write
    # counts for its process when it is made, for the disk when it gets there.
    return max(0.0, everybody - max(0.0, own))


def host_counters(
    exclude: Iterable[int] | None = None, own_network_bytes: Callable[[], float] | None = None
) -> Source:
    """Return what reads this machine's counters, and the part of a training task in them.

    The task's part of cores and disk is that of the processes `exclude` (this one by default, ()
    for none) and all their descendants, ended ones included. Time that a hypervisor gave to other
    machines counts as busy; waiting for a disk does not. Only Linux counts a process's disk bytes.

    The network is all physical interfaces and the loopback, where each byte is sent and received:
    it has no wire, but moving its bytes takes memory and kernel time. Systems do not count network
    bytes by process, so the task's count as others', unless `own_network_bytes` gives the bytes
    that it has sent and received so far.

    Deviation: the paper counts bytes of the network; whether the loopback's, it does not say.
    """
    trees = [process_tree(pid) for pid in ([os.getpid()] if exclude is None else exclude)]

    def read() -> Counters:
        own = [tree() for tree in trees]
        cpu = psutil.cpu_times()._asdict()
        # Linux counts guests' time in the user's as well.
        cores_s = sum(s for name, s in cpu.items() if not name.startswith("guest"))
        idle_s = cpu["idle"] + cpu.get("iowait", 0.0)
        links = _links(psutil.net_io_counters(pernic=True))
        disks = _physical(psutil.disk_io_counters(perdisk=True) or {}, _DISKS)
        return Counters(
            at_s=time.monotonic(),
            cores_s=cores_s,
            busy_s=cores_s - idle_s,
            network_bytes=sum(link.bytes_sent + link.bytes_recv for link in links),
            disk_bytes=sum(disk.read_bytes + disk.write_bytes for disk in disks),
            own_busy_s=sum(used.busy_s for used in own),
            own_network_bytes=own_network_bytes() if own_network_bytes else 0.0,
            own_disk_bytes=sum(used.disk_bytes for used in own),
        )

    return read


def _links(counters: Mapping[str, Any]) -> list[Any]:
    """Counters of physical interfaces and of the loopback, ``lo`` on Linux, ``lo0`` on macOS."""
    others = dict(counters)
    loopbacks = [others.pop(name) for name in ("lo", "lo0") if name in others]
    return [*loopbacks, *_physical(others, _NETWORK)]


def _physical(counters: Mapping[str, Any], folder: Path) -> list[Any]:
    """Counters of physical devices; where the system does not say which, of all but loops.

    Virtual ones (bridges, mirrors, memory as a disk) count bytes again, or what stays in memory.
    """
    physical = [name for name in counters if _is_physical(folder, name)]
    names = physical or [name for name in counters if not name.startswith("loop")]
    return [counters[name] for name in names]


@cache
def _is_physical(folder: Path, name: str) -> bool:
    return (folder / name / "device").exists()


class Used(NamedTuple):
    """Seconds of a core, and bytes read from disks and written to them."""

    busy_s: float = 0.0
    disk_bytes: float = 0.0


def process_tree(pid: int) -> Callable[[], Used]:
    """Return what reads how much a process and all its descendants, ended ones too, have used.

    When the first itself has ended, the last sum stays.
    """
    last = Used()
    try:
        alive = _alive_by_kernel(pid) if _lists_children(pid) else _alive_by_psutil(pid)
    except (*_GONE, psutil.NoSuchProcess):
        raise UserError(f"there is no process {pid}; exclude one that runs") from None

    def read() -> Used:
        nonlocal last
        try:
            each = alive()
        except (*_GONE, psutil.NoSuchProcess):
            return last
        last = Used(sum(used.busy_s for used in each), sum(used.disk_bytes for used in each))
        return last

    return read


def _lists_children(pid: int) -> bool:
    return Path(f"/proc/{pid}/task/{pid}/children").exists()


def _alive_by_kernel(pid: int) -> Callable[[], list[Used]]:
    ticks_per_s = os.sysconf("SC_CLK_TCK")

    def used(process: int) -> Used:
        try:
            busy_s = sum(map(int, _stat(process)[11:15])) / ticks_per_s
        except _GONE:
            return Used()
        return Used(busy_s, _disk_bytes(process))

    def alive() -> list[Used]:
        if _stat(pid)[19] != began:
            raise ProcessLookupError(pid)  # the number is another process's by now
        tree = [pid]
        for process in tree:  # which grows meanwhile
            tree += _children(process)
        return list(map(used, tree))

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
    children: set[str] = set()  # a child passes to another thread when its own ends
    with contextlib.suppress(*_GONE):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(*_GONE):
                children.update((thread / "children").read_text().split())
    return [*map(int, children)]


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

    return lambda: list(map(used, (root, *root.children(recursive=True))))
