"""MG-WFBP: merge gradients that would wait anyway (Shi, Chu and Li, INFOCOM 2019)."""

from __future__ import annotations

from workbench.dynacomm.costs.iteration import Direction, LayerCosts, check_costs
from workbench.dynacomm.costs.plan import Plan


def mg_wfbp(costs: LayerCosts) -> Plan:
    """Layer-by-layer transmission, less the cuts that cost more than they win.

    Deviation: the original merges gradients only, for all-reduce. A parameter server also sends
    parameters; pulls are merged by the same rule with time reversed.
    """
    check_costs(costs)
    return Plan(merged_cuts(costs.forward), merged_cuts(costs.backward))


def merged_cuts(direction: Direction) -> tuple[int, ...]:
    """Cuts that remain after merging, from the last layer to the first.

    Layer l's push is merged into that of layer l-1 if, when the gradient of l-1 is ready, it has
    not started yet, or if waiting for that gradient costs less than another overhead. Either way
    the gradient is ready less than one overhead after the start (and so before the end, the third
    condition of the original).
    """
    sent_s, left_s, overhead_s = direction.sent_s, direction.left_s, direction.overhead_s
    cuts: list[int] = []
    end, free_s = direction.layers, 0.0  # layers above `end` are pushed by `free_s`
    for layer in range(direction.layers, 1, -1):
        start_s = max(free_s, left_s[layer - 1])
        ready_s = left_s[layer - 2]
        if ready_s - start_s >= overhead_s:
            cuts.append(layer - 1)
            free_s = start_s + overhead_s + (sent_s[end] - sent_s[layer - 1])
            end = layer - 1
    return tuple(cuts[::-1])
