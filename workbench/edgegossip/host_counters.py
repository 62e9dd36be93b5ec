"""Counters of this machine, by psutil: on Linux from /proc, as Han et al. 2021 (Sec. 3.3)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from workbench.edgegossip.contention import Counters, Source

_NETWORK, _DISKS = Path("/sys/class/net"), Path("/sys/block")


def host_counters(
    exclude: Iterable[int] | None = None, own_network_bytes: Callable[[], float] | None = None
) -> Source:
    """Return what reads this machine's counters, and the part of a training task in them.

    The task's part of cores and disk is that of its processes and all that they started, ended
    ones included. Time that a hypervisor gave to other machines counts as busy, since the task
    cannot have it; waiting for a disk does not. Linux alone tells a process's disk bytes.

    The network is all true interfaces and the loopback, where each byte is sent and received: it
    has no wire, but moving its bytes takes the memory and the kernel from the task as others do,
    and jobs whose processes are all on this machine exchange theirs there. Systems do not tell
    which process the network carried bytes for, so what the task itself sent and received counts
    as others', unless it says how much that was.

    Deviation: the paper counts bytes of the network; whether the loopback's, it does not say.

    Parameters
    ----------
    exclude
        Process ids of the training task; this process by default, and () is nobody.
    own_network_bytes
        Gives the bytes that the task has sent and received so far.

    Raises
    ------
    ValueError
        There is no such process.
    """
    trees = [_tree(pid) for pid in ([os.getpid()] if exclude is None else exclude)]

    def read() -> Counters:
        own = [tree() for tree in trees]
        cpu = psutil.cpu_times()._asdict()
        # Linux counts guests' time in the user's as well.
        cores_s = sum(s for name, s in cpu.items() if not name.startswith("guest"))
        idle_s = cpu["idle"] + cpu.get("iowait", 0.0)
        links = _links(psutil.net_io_counters(pernic=True))
        disks = _true(psutil.disk_io_counters(perdisk=True) or {}, _DISKS)
        return Counters(
            at_s=time.monotonic(),
            cores_s=cores_s,
            busy_s=cores_s - idle_s,
            network_bytes=sum(one.bytes_sent + one.bytes_recv for one in links),
            disk_bytes=sum(one.read_bytes + one.write_bytes for one in disks),
            own_busy_s=sum(busy_s for busy_s, _ in own),
            own_network_bytes=own_network_bytes() if own_network_bytes else 0.0,
            own_disk_bytes=sum(disk_bytes for _, disk_bytes in own),
        )

    return read


def _tree(pid: int) -> Callable[[], tuple[float, float]]:
    """Return what reads the busy seconds and disk bytes of a process and all that it started."""
    try:
        root = psutil.Process(pid)
    except psutil.NoSuchProcess:
        raise ValueError(f"there is no process {pid}; exclude one that runs") from None
    last = (0.0, 0.0)

    def read() -> tuple[float, float]:
        nonlocal last
        try:
            each = [_used(one) for one in (root, *root.children(recursive=True))]
        except psutil.NoSuchProcess:
            return last  # it ended, and uses nothing more
        last = (sum(busy_s for busy_s, _ in each), sum(disk_bytes for _, disk_bytes in each))
        return last

    return read


def _used(process: psutil.Process) -> tuple[float, float]:
    """Busy seconds and disk bytes of a process and of its children that have ended.

    So the sum over those alive is that of the whole tree, and no step down when one ends.
    """
    try:
        with process.oneshot():
            busy_s = sum(process.cpu_times()[:4])  # user and system, its own and its children's
            io = process.io_counters() if hasattr(process, "io_counters") else None
    except psutil.NoSuchProcess:
        return 0.0, 0.0
    except psutil.AccessDenied:
        return busy_s, 0.0
    return busy_s, float(io.read_bytes + io.write_bytes) if io else 0.0


def _links(counters: Mapping[str, Any]) -> list[Any]:
    """Counters of true interfaces and of the loopback, ``lo`` on Linux, ``lo0`` on macOS."""
    loopback = {name: one for name, one in counters.items() if name in ("lo", "lo0")}
    others = {name: one for name, one in counters.items() if name not in loopback}
    return [*loopback.values(), *_true(others, _NETWORK)]


def _true(counters: Mapping[str, Any], folder: Path) -> list[Any]:
    """Counters of true devices; where the system does not tell which are, of all but loops.

    Virtual ones (bridges, mirrors, loops, memory as a disk) count what a true one counts again,
    or what never leaves the memory.
    """
    true = [name for name in counters if (folder / name / "device").exists()]
    names = true or [name for name in counters if not name.startswith("loop")]
    return [counters[name] for name in names]
