"""Counters of this machine, by psutil: on Linux from /proc, as Han et al. 2021 (Sec. 3.3)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass

import psutil

from workbench.edgegossip.prediction.predictor import Contention
from workbench.utils.checks import UserError


@dataclass(frozen=True)
class Counters:
    """A node's counters; only differences mean anything."""

    at_s: float  # of a steady clock
    cores_s: float  # of all cores together
    busy_s: float  # of all cores while not idle
    network_bytes: float = 0.0  # sent and received
    disk_bytes: float = 0.0  # read and written
    own_busy_s: float = 0.0  # of the training task, as the next
    own_disk_bytes: float = 0.0


Source = Callable[[], Counters]
"""Reads the counters now."""


def between(earlier: Counters, later: Counters) -> Contention:
    """Return the mean contention from one reading to the next."""
    spent = Counters(*(b - a for a, b in zip(astuple(earlier), astuple(later), strict=True)))
    if not (spent.at_s > 0 and spent.cores_s > 0):
        raise UserError(
            f"{spent.at_s:g} s between two readings, in which the cores counted "
            f"{spent.cores_s:g} s; contention needs some time: read less often"
        )
    core = _others(spent.busy_s, spent.own_busy_s) / spent.cores_s
    disk_bytes = _others(spent.disk_bytes, spent.own_disk_bytes)
    return Contention(min(core, 1.0), spent.network_bytes / spent.at_s, disk_bytes / spent.at_s)


def _others(everybody: float, own: float) -> float:
    # A task's own counters fall when one of its processes ends without being waited for. A write
    # counts for its process when it is made, for the disk when it gets there.
    return max(0.0, everybody - max(0.0, own))


def host_counters(exclude: Iterable[int] | None = None, *, descendants: bool = True) -> Source:
    """Return what reads this machine's counters, and the part of a training task in them.

    The task's part of cores and disk is that of the processes `exclude` (this one by default, ()
    for none) and, with `descendants`, of all below them, ended ones included. Time that a
    hypervisor gave to other machines counts as busy; waiting for a disk does not. Only Linux counts
    a process's disk bytes.

    Network and disks are psutil's sums: bridges and mirrors count bytes again, and so does the
    loopback, where each byte is sent and received. Systems do not count network bytes by process,
    so the task's count as others'.

    Deviation: the paper counts bytes of the network; whether the loopback's, it does not say.
    """
    pids = [os.getpid()] if exclude is None else list(exclude)
    try:
        roots = [psutil.Process(pid) for pid in pids]
    except psutil.NoSuchProcess as error:
        raise UserError(f"there is no process {error.pid}; exclude one that runs") from None
    used = dict.fromkeys(roots, (0.0, 0.0))  # when a task has ended, its last sums stay

    def read() -> Counters:
        for root in roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                below = root.children(recursive=True) if descendants else []
                each = [_used(process, 4 if descendants else 2) for process in (root, *below)]
                used[root] = sum(busy_s for busy_s, _ in each), sum(disk for _, disk in each)
        cpu = psutil.cpu_times()._asdict()
        # Linux counts guests' time in the user's as well.
        cores_s = sum(s for name, s in cpu.items() if not name.startswith("guest"))
        links, disks = psutil.net_io_counters(), psutil.disk_io_counters()
        return Counters(
            at_s=time.monotonic(),
            cores_s=cores_s,
            busy_s=cores_s - cpu["idle"] - cpu.get("iowait", 0.0),
            network_bytes=float(links.bytes_sent + links.bytes_recv) if links else 0.0,
            disk_bytes=float(disks.read_bytes + disks.write_bytes) if disks else 0.0,
            own_busy_s=sum(busy_s for busy_s, _ in used.values()),
            own_disk_bytes=sum(disk_bytes for _, disk_bytes in used.values()),
        )

    return read


def _used(process: psutil.Process, times: int) -> tuple[float, float]:
    """Seconds of a core and disk bytes.

    `times` are 2 for user and system, 4 for those of ended children as well.
    """
    if not process.is_running():  # its number may be another process's by now
        return 0.0, 0.0
    try:
        busy_s = sum(process.cpu_times()[:times])
        io = process.io_counters() if hasattr(process, "io_counters") else None
    except psutil.NoSuchProcess:
        return 0.0, 0.0
    except psutil.AccessDenied:
        return busy_s, 0.0
    return busy_s, float(io.read_bytes + io.write_bytes) if io else 0.0
