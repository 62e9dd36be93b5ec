"""Exchanges that information takes from node to node along a mixing matrix."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from workbench.decentralised.mixing import Mixing


def hops(mixing: Mixing) -> NDArray[np.float64]:
    """Exchanges until node i knows what node j knew: (n, n), infinite where it never will."""
    return _hops(mixing.matrix > 0)


def diameter(mixing: Mixing) -> float:
    """Exchanges until everybody knows what anybody knew; infinite where some never do."""
    return float(hops(mixing).max())


def fault_diameter(mixing: Mixing) -> float:
    """The diameter among nodes still connected after the loss of whichever one node or link.

    Never less than `diameter` where that is finite.
    """
    linked = mixing.matrix > 0
    longest, count = _longest(_hops(linked)), len(mixing)
    if linked.all():  # one relays what came by the link that is gone
        return longest if count < 3 else 2.0
    nodes = np.arange(count)
    for gone in nodes:
        rest = nodes[nodes != gone]
        longest = max(longest, _longest(_hops(linked[np.ix_(rest, rest)])))
    for one, other in np.argwhere(np.triu(linked | linked.T, 1)):
        without = linked.copy()
        without[[one, other], [other, one]] = False
        longest = max(longest, _longest(_hops(without)))
    return longest


def _longest(found: NDArray[np.float64]) -> float:
    return float(found.max(initial=0.0, where=np.isfinite(found)))


def _hops(linked: NDArray[np.bool_]) -> NDArray[np.float64]:
    """All shortest paths at once, a matrix product a hop."""
    count = len(linked)
    found = np.full((count, count), math.inf)
    reached = np.eye(count, dtype=bool)
    found[reached] = 0
    step_into, steps = linked.astype(np.float32), 0
    while True:
        steps += 1
        wider = reached | (step_into @ reached.astype(np.float32) > 0)
        new = wider & ~reached
        if not new.any():
            return found
        found[new] = steps
        reached = wider
