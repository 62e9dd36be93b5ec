"""What a node has not sent yet of its gradients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.decentralised.gradient_exchange.gradient import Gradient
from workbench.decentralised.gradient_exchange.part import Part, Values


class Leftover:
    """Sum of all values that were not sent, flat; `values` is None before the first."""

    def __init__(self) -> None:
        self.values: Values | None = None

    def plus(self, added: Values) -> Values:
        """Add values, and return the sum."""
        self.values = added.copy() if self.values is None else self.values + added
        return self.values

    def take(self, gradient: Gradient, mask: NDArray[np.bool_]) -> Part:
        """Send what a mask selects; nothing is left of that."""
        assert self.values is not None
        part = gradient.part(mask, self.values)
        self.values = np.where(mask, 0, self.values)
        return part
