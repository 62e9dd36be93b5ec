"""DynaComm's optimal segmentation, exact, without its cubic dynamic programme.

The paper (Cai et al. 2021, IV-B, Eqs. 13-14, Algs. 3-4) minimises the duration of a direction over
all cuts in O(L^3). `Direction` shows that duration to be a maximum over the segments, ``j Δt +
sent_s[c_j] + left_s[c_{j-1}]``, which only grows with j and c_j and only shrinks with c_{j-1}. For
a fixed deadline it is thus never worse to make a segment longer: the furthest c_j in time decides
in at most L steps whether the deadline can be met, with the fewest transmissions. What remains is a
search for the least deadline that can.
"""

from __future__ import annotations

from bisect import bisect_right

from workbench.dynacomm.costs.iteration import Direction, LayerCosts, check_costs
from workbench.dynacomm.costs.plan import Plan


def dynacomm(costs: LayerCosts) -> Plan:
    """Fastest plan there is; of the fastest, one with the fewest transmissions.

    Deviation: solved by a parametric search over the duration instead of Eqs. (13)-(14), in
    O(n log L) a step for n segments and a few tens of steps at most. The optimum is the same.
    """
    check_costs(costs)
    return Plan(optimal_cuts(costs.forward), optimal_cuts(costs.backward))


def optimal_cuts(direction: Direction) -> tuple[int, ...]:
    """Cuts with the least duration, exact to the last bit of `Direction.duration_s`.

    The search keeps a duration that is met (`upper_s`, with its cuts) and one that no plan
    undercuts (`lower_s`). A deadline that is met lowers the first to the duration reached; one that
    is missed raises the second to the least duration at which the attempt would have chosen
    otherwise. So the search ends at the optimum itself, not within a tolerance of it.
    """
    sent_s, left_s, overhead_s = direction.sent_s, direction.left_s, direction.overhead_s
    best: list[int] = []
    upper_s = overhead_s + sent_s[-1] + left_s[0]
    lower_s = max((overhead_s + s) + c for s, c in zip(sent_s[1:], left_s, strict=False))
    deadline_s = lower_s
    while lower_s < upper_s:
        cuts, duration_s, next_s = _furthest(direction, deadline_s)
        if cuts is None:
            lower_s = next_s
        else:
            best, upper_s = cuts, duration_s
        middle_s = lower_s + (upper_s - lower_s) / 2
        deadline_s = middle_s if middle_s < upper_s else lower_s
    return tuple(best)


def _furthest(direction: Direction, deadline_s: float) -> tuple[list[int] | None, float, float]:
    """Make every segment as long as the deadline allows.

    Returns the cuts (None: the deadline cannot be met), their duration, and the least duration
    above the deadline at which another choice would have been possible.
    """
    sent_s, left_s, overhead_s = direction.sent_s, direction.left_s, direction.overhead_s
    layers = direction.layers
    cuts: list[int] = []
    duration_s, next_s = 0.0, float("inf")
    cut = transfer = 0
    while True:
        transfer += 1
        begin_s, compute_s = transfer * overhead_s, left_s[cut]
        reach = bisect_right(sent_s, deadline_s - compute_s - begin_s, cut + 1) - 1
        # The subtraction rounds otherwise than the sum that is compared in the end.
        while reach < layers and (begin_s + sent_s[reach + 1]) + compute_s <= deadline_s:
            reach += 1
        while reach > cut and (begin_s + sent_s[reach]) + compute_s > deadline_s:
            reach -= 1
        if reach < layers:
            next_s = min(next_s, (begin_s + sent_s[reach + 1]) + compute_s)
        if reach <= cut:
            return None, duration_s, next_s
        duration_s = max(duration_s, (begin_s + sent_s[reach]) + compute_s)
        if reach == layers:
            return cuts, duration_s, next_s
        cuts.append(reach)
        cut = reach
