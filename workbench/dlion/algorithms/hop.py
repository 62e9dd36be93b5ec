"""Hop: whole gradients, not waiting for stragglers (Luo, Zhuo, Qian 2019; here Sec. 5.1.4).

An iteration begins when the gradients of all but `BACKUP` peers are there, none is missing that is
older than `STALENESS` iterations, and no peer is so far behind that the tokens are used up.

Deviation: tokens are not messages of their own. A peer's newest gradient says how far it is, since
both would wait in the same queue of a link.
"""

from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.synchronisation import Progress
from workbench.dlion.algorithms.system import System

BACKUP = 1
STALENESS = 5


def all_but_the_backup(progress: Progress) -> bool:
    """Wait for all but the slowest peer, and for that one if it is too far behind."""
    newest = sorted(progress.newest.values())
    in_time = all(one >= progress.iteration for one in newest[BACKUP:])
    return in_time and all(one >= progress.iteration - STALENESS for one in newest)


HOP = System("Hop", whole, all_but_the_backup)
