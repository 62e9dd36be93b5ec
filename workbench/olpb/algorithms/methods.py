"""How a backward pass is cut into what nodes do: OLPB, and what it is compared with (Sec. VII)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workbench.olpb.algorithms.levels import Flow, Group, groups

LEVEL = 2
"""l: levels in a group of OLPB, by default."""
MODULES = 4
"""Of DPB, as in the original setting (Sec. VII-A)."""

Method = Callable[[Flow, int], tuple[Group, ...]]
"""Groups of a network's operators, from the input to the loss, given l."""


def olpb(flow: Flow, level: int = LEVEL) -> tuple[Group, ...]:
    """Scan over groups of l levels of operators: exact gradients, each node a run of groups."""
    return groups(flow, "operator", level)


def bppsa(flow: Flow, level: int = 1) -> tuple[Group, ...]:
    """Scan over layers, each a group of its own (Wang et al. 2020): exact gradients."""
    del level
    return groups(flow, "layer", 1)


def dpb(flow: Flow, level: int = 1) -> tuple[Group, ...]:
    """Modules of whole layers, each on a node, with gradients of earlier iterations (Huo et al.)."""
    return bppsa(flow, level)


def sequential(flow: Flow, level: int = 1) -> tuple[Group, ...]:
    """Plain back-propagation on one node, layer after layer: exact gradients."""
    return bppsa(flow, level)


METHODS: Mapping[str, Method] = {
    "olpb": olpb,
    "bppsa": bppsa,
    "dpb": dpb,
    "sequential": sequential,
}
"""By name; OLPB first."""
