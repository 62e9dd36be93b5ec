"""How many exchanges news takes from one node to another, along the weights of a mixing matrix."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from workbench.gossip.mixing import Mixing


def ways(mixing: Mixing) -> NDArray[np.float64]:
    """Exchanges until node i knows what node j knew: (n, n), infinite where it never will.

    Each exchange brings it one step further along positive weights, whose ways are searched
    breadth first.
    """
    return _ways(mixing.matrix > 0)


def diameter(mixing: Mixing) -> float:
    """Exchanges until everybody knows what anybody knew; infinite where some never do."""
    return float(ways(mixing).max())


def diameter_left(mixing: Mixing) -> float:
    """The same among those that still hear of each other, with whichever one node gone.

    Never less than `diameter` where that is finite. Where a link is lost instead, one exchange
    more is enough: a way that used it can do without one of its ends, or leads from one end to
    the other, and then comes to another peer of that in as many, if there is one.
    """
    linked = mixing.matrix > 0
    longest = _longest(_ways(linked))
    if len(mixing) == 1 or linked.all():
        return longest
    nodes = np.arange(len(mixing))
    left = (nodes[nodes != gone] for gone in nodes)
    return max(longest, *(_longest(_ways(linked[np.ix_(rest, rest)])) for rest in left))


def _longest(found: NDArray[np.float64]) -> float:
    return float(found.max(initial=0.0, where=np.isfinite(found)))


def _ways(linked: NDArray[np.bool_]) -> NDArray[np.float64]:
    """All shortest ways at once: who is reached in so many steps, a matrix product a step."""
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
