"""Top-k with error feedback: Deep Gradient Compression (Lin et al. 2018, arXiv 1712.01887).

Every worker sends the largest 1 % of what has accumulated, per weight variable, keeps the rest, and
applies itself what it sent, so that replicas that begin equal stay so but for the order of sums.
With momentum correction and momentum factor masking (Sec. 3, Alg. 1).

Deviation: neither clipping nor a warm-up of the sparsity; momentum is 0 unless asked for.
"""

import numpy as np

from workbench.decentralised.exchanges.choco_sgd import largest
from workbench.dlion.algorithms.synchronisation import synchronous
from workbench.dlion.algorithms.system import System
from workbench.dlion.gradient import ErrorFeedback, Gradient, Links, Parts
from workbench.dlion.part import Values
from workbench.utils.checks import UserError, check_number

SHARE = 0.01


class TopK:
    """Send everyone the largest share of the accumulated velocity."""

    def __init__(self, share: float = SHARE, momentum: float = 0.0) -> None:
        if not 0 < check_number("share", share) <= 1:
            raise UserError(f"share is {share}; it must be above 0 and at most 1")
        if not 0 <= check_number("momentum", momentum) < 1:
            raise UserError(f"momentum is {momentum}; it must be at least 0 and below 1")
        self.share, self.momentum = share, momentum
        self.velocity: Values | None = None
        self.left = ErrorFeedback()

    def __call__(self, gradient: Gradient, links: Links) -> Parts:
        """Accumulate, send the largest, keep the rest."""
        before = 0.0 if self.velocity is None else self.momentum * self.velocity
        self.velocity = before + gradient.values
        total = self.left.plus(self.velocity)
        mask = np.zeros(len(total), dtype=bool)
        for variable in gradient.variables:
            mask[variable][largest(total[variable], self.share)] = True
        self.velocity[mask] = 0
        return dict.fromkeys((*links.peers, links.node), self.left.take(gradient, mask))


TOP_K = System("Top-k", TopK, synchronous)
