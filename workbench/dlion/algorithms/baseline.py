"""Baseline: whole gradients to all peers, every iteration, synchronously (Sec. 5.1.4)."""

from workbench.dlion.algorithms.synchronisation import synchronous
from workbench.dlion.algorithms.system import System
from workbench.dlion.gradient import Gradient, Links, Parts


def whole(gradient: Gradient, links: Links) -> Parts:
    """Send the whole gradient to everyone, as Hop does, which waits for fewer."""
    return dict.fromkeys(links.peers, gradient.whole)


BASELINE = System("Baseline", whole, synchronous)
