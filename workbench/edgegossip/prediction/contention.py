"""Use of a node's shared resources by all but the training task.

U = (core, network, disk) of Han et al. 2021, Table 4, from counters that only ever grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields

from workbench.checks import check_number
from workbench.errors import UserError


@dataclass(frozen=True)
class Contention:
    """Use of the shared resources by all but the training task.

    Parameters
    ----------
    core
        U^core: share of the time of all cores together, 0 to 1.
    network_bytes_per_s
        U^networkBW: sent and received, also by the loopback (see `host_counters`).
    disk_bytes_per_s
        U^diskBW: read and written.

    Raises
    ------
    ValueError
        A number that is negative or not finite, or a share above 1.
    """

    core: float = 0.0
    network_bytes_per_s: float = 0.0
    disk_bytes_per_s: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = check_number(field.name, getattr(self, field.name))
            if not 0 <= value < math.inf:
                raise UserError(f"{field.name} is {value}; give a finite number, at least 0")
            object.__setattr__(self, field.name, value)
        if self.core > 1:
            raise UserError(f"core is {self.core}; give the share of all cores' time, at most 1")


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
    """Return the mean contention from one reading to the next.

    A write counts for its process when it is made, for the disk when it gets there, so the
    difference may be slightly negative; it then counts as none.
    """
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
    # A task's own counters fall when one of its processes ends without being waited for.
    return max(0.0, everybody - max(0.0, own))
