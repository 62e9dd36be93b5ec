"""Counters of this machine, by psutil: on Linux from /proc, as Han et al. 2021 (Sec. 3.3)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from workbench.edgegossip.prediction.contention import Counters, Source
from workbench.edgegossip.prediction.process_tree import process_tree

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
    trees = [process_tree(pid) for pid in ([os.getpid()] if exclude is None else exclude)]

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
            own_busy_s=sum(one.busy_s for one in own),
            own_network_bytes=own_network_bytes() if own_network_bytes else 0.0,
            own_disk_bytes=sum(one.disk_bytes for one in own),
        )

    return read


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
    true = [name for name in counters if _is_true(folder, name)]
    names = true or [name for name in counters if not name.startswith("loop")]
    return [counters[name] for name in names]


@cache
def _is_true(folder: Path, name: str) -> bool:
    return (folder / name / "device").exists()
