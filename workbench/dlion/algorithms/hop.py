"""Hop: whole gradients, not waiting for stragglers (Luo, Zhuo, Qian 2019; here Sec. 5.1.4).

"Bounded synchronous training strategy and backup worker technique" (Sec. 5.2.5): an iteration
begins unless a peer is more than `STALENESS` iterations behind; the `BACKUP` slowest peers may be
`MOST_BEHIND` behind, where Hop's tokens would be used up.

The paper does not say how the bound and the backup worker go together. By the other reading an
iteration waits for all peers but the backup, and the bound is the backup's alone. Where iterations
take equally long that is Baseline, bit for bit, and the paper has Hop above it (Sec. 5.2.7).

Deviation: how many tokens there are is not stated; here a backup may be behind by twice the bound.
Tokens are not messages of their own: a peer's newest gradient says how far it is, since both would
wait in the same queue of a link.
"""

from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.synchronisation import Progress
from workbench.dlion.algorithms.system import System

BACKUP = 1
STALENESS = 5
MOST_BEHIND = 2 * STALENESS


def bounded_but_the_backup(progress: Progress) -> bool:
    """Wait for peers beyond the bound, and for the slowest one only far beyond it."""
    newest = sorted(progress.newest.values())
    backups, others = newest[:BACKUP], newest[BACKUP:]
    in_bound = all(iteration >= progress.iteration - STALENESS for iteration in others)
    return in_bound and all(iteration >= progress.iteration - MOST_BEHIND for iteration in backups)


HOP = System("Hop", whole, bounded_but_the_backup)
