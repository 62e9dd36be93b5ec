"""Gaia: updates that change a weight by more than 1 % (Hsieh et al. 2017; here Sec. 5.1.4).

What is not significant yet adds up until it is. A worker goes on when its significant updates have
been delivered.

Deviation: Gaia lowers its threshold with the learning rate; here both are constant.
"""

import numpy as np

from workbench.decentralised.gradient_exchange.gradient import Gradient, Leftover, Links, Parts
from workbench.decentralised.gradient_exchange.part import Values
from workbench.dlion.algorithms.synchronisation import delivered
from workbench.dlion.algorithms.system import System

THRESHOLD = 0.01


class Significant:
    """Send everyone the accumulated updates that are significant."""

    def __init__(self) -> None:
        self.left = Leftover()

    def __call__(self, gradient: Gradient, links: Links) -> Parts:
        """Select, and keep the rest."""
        total = self.left.plus(gradient.values)
        significant = is_significant(total * gradient.step, gradient.weights)
        return dict.fromkeys(links.peers, self.left.take(gradient, significant))


def is_significant(updates: Values, weights: Values, threshold: float = THRESHOLD) -> np.ndarray:
    """Whether each update is above its share of the weight; of a weight of 0, any but none."""
    return np.abs(updates) > threshold * np.abs(weights)


GAIA = System("Gaia", Significant, delivered, acknowledged=True)
