"""Subtasks of a backward pass, and the nodes that they are given to (OLPB, Sec. IV)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from workbench.utils.checks import (
    ABOVE_ZERO,
    NOT_NEGATIVE,
    at_least,
    check_fields,
    check_kind,
    listed,
    optional,
)


@dataclass(frozen=True)
class Subtask:
    """A group of operators whose gradients are computed together: an element of the scan."""

    names: tuple[str, ...]
    backward_flops: float  # of all gradients of its operators: what a ι costs, as the paper counts
    boundary_bytes: int  # of the gradient that it passes on towards the input
    memory_bytes: int  # parameters, and what its gradients are computed from


@dataclass(frozen=True)
class Node:
    """A node's conditions, for which the scheduler asks."""

    flops_per_s: float = field(metadata=ABOVE_ZERO)
    memory_bytes: int | None = field(default=None, metadata=optional(at_least(0)))  # None: enough
    # None: a message takes its delay alone.
    bandwidth_bps: float | None = field(default=None, metadata=optional(ABOVE_ZERO))

    def __post_init__(self) -> None:
        check_fields(self, " of a node")

    @property
    def room(self) -> float:
        """Bytes that it holds; infinite where none are given."""
        return math.inf if self.memory_bytes is None else self.memory_bytes

    def sending_s(self, size_bytes: float) -> float:
        """Seconds that a message's bytes take."""
        return 8 * size_bytes / self.bandwidth_bps if self.bandwidth_bps else 0.0


@dataclass(frozen=True)
class Pool:
    """Nodes that compute gradients together.

    A node begins an application of ι when it is done with the one before and has both operands;
    each takes `dispatch_s` on top of its arithmetic. A message arrives ``Exp(1) * delay_s`` after
    it is sent (Sec. VII), or, where delays are constant, `delay_s` after.
    """

    nodes: tuple[Node, ...]
    dispatch_s: float = field(default=0.0, metadata=NOT_NEGATIVE)
    delay_s: float = field(default=0.0, metadata=NOT_NEGATIVE)

    def __post_init__(self) -> None:
        for node in listed("nodes", self.nodes, "give a Node for each"):
            check_kind("one of nodes", node, Node, "a Node, such as Node(flops_per_s=1e9)")
        check_fields(self)
