"""Top-k with error feedback: Deep Gradient Compression (Lin et al. 2018, arXiv 1712.01887).

Every worker sends the largest 1 % of what has accumulated, per weight variable, keeps the rest, and
applies itself what it sent, so that replicas that begin equal stay so but for the order of sums.
With momentum correction and momentum factor masking (Sec. 3, Alg. 1).

Deviation: neither clipping nor a warm-up of the sparsity; momentum is 0 unless asked for.
"""

import numpy as np

from workbench.decentralised.gradient_exchange.gradient import Gradient, Links, Parts
from workbench.decentralised.gradient_exchange.part import Values
from workbench.dlion.algorithms.synchronisation import synchronous
from workbench.dlion.algorithms.system import System

SHARE = 0.01


class TopK:
    """Send everyone the largest share of the accumulated velocity."""

    def __init__(self, share: float = SHARE, momentum: float = 0.0) -> None:
        self.share, self.momentum = share, momentum
        self.velocity: Values | None = None
        self.left: Values | None = None

    def __call__(self, gradient: Gradient, links: Links) -> Parts:
        """Accumulate, send the largest, keep the rest."""
        if self.velocity is None or self.left is None:
            self.velocity, self.left = (
                np.zeros_like(gradient.values),
                np.zeros_like(gradient.values),
            )
        self.velocity = self.momentum * self.velocity + gradient.values
        self.left = self.left + self.velocity
        mask = np.concatenate([largest(self.left[one], self.share) for one in gradient.variables])
        part = gradient.part(mask, self.left)
        self.velocity[mask] = 0
        self.left[mask] = 0
        return dict.fromkeys((*links.peers, links.node), part)


def largest(values: Values, share: float) -> np.ndarray:
    """Mask of the largest share of values, at least one; of equal ones the first."""
    count = max(1, int(share * len(values)))
    mask = np.zeros(len(values), dtype=bool)
    mask[np.argsort(-np.abs(values), kind="stable")[:count]] = True
    return mask


TOP_K = System("Top-k", TopK, synchronous)
