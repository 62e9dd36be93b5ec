"""What a scan over the steps of a recurrent network costs, by both countings.

A step's transposed Jacobian is a dense matrix of H x H for each sample. As the paper counts, every
move costs a step's product with a gradient. By arithmetic a product of two matrices costs H times
that; only what the loss's gradient is part of is a product with a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.timing import Work

COUNTINGS = ("paper", "arithmetic")
NUMBER_BYTES = 8


@dataclass(frozen=True)
class Chain:
    """A vanilla recurrent network: `steps` of `hidden` units, on a batch."""

    steps: int
    hidden: int
    batch_size: int = 1

    @property
    def vector_flops(self) -> float:
        """Of a step's Jacobian times a gradient."""
        return 2.0 * self.batch_size * self.hidden**2

    @property
    def matrix_flops(self) -> float:
        """Of a product of two steps' Jacobians."""
        return self.vector_flops * self.hidden

    @property
    def gradient_bytes(self) -> int:
        """Of a message with a gradient."""
        return NUMBER_BYTES * self.batch_size * self.hidden

    @property
    def matrix_bytes(self) -> int:
        """Of a message with Jacobians."""
        return self.gradient_bytes * self.hidden


def chain_work(planned: Schedule, chain: Chain, counting: str = "arithmetic") -> Work:
    """What a schedule of a chain's steps costs: elements are the loss's gradient, then the steps.

    Gradients of weights are left out on both sides: they are sums over all steps, which any order
    of nodes makes.
    """
    spans, after_flops = planned.spans, [0.0] * planned.elements
    if counting == "paper":
        return Work([chain.vector_flops] * planned.work, [0.0] * len(planned.homes), after_flops)
    flops = [
        chain.matrix_flops if spans[move.left].start else chain.vector_flops
        for move in planned.moves
    ]
    sent = [float(chain.matrix_bytes)] * len(planned.homes)
    for value, span in spans.items():
        if not span.start:  # the loss's gradient is part of it
            sent[value] = float(chain.gradient_bytes)
    return Work(flops, sent, after_flops)
