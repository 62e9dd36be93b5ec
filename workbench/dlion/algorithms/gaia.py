"""Gaia: updates that change a weight by more than 1 % (Hsieh et al. 2017; here Sec. 5.1.4).

What is not significant yet adds up until it is. A worker goes on when its significant updates have
been delivered.

Deviation: Gaia lowers its threshold with the learning rate; here both are constant.
"""

import numpy as np
from numpy.typing import NDArray

from workbench.dlion.algorithms.synchronisation import delivered
from workbench.dlion.algorithms.system import System
from workbench.dlion.gradient import Accumulated, Gradient

THRESHOLD = 0.01


def significant(gradient: Gradient) -> NDArray[np.bool_]:
    """Whether each update is above its share of the weight; of a weight of 0, any but none."""
    return np.abs(gradient.values * gradient.step) > THRESHOLD * np.abs(gradient.weights)


GAIA = System("Gaia", Accumulated(significant), delivered, acknowledged=True)
