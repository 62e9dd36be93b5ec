"""What `recorder` records of a model, and `memory` counts: storages and when they are alive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INPUTS = 0
"""Layer of the model's inputs; the loss is the layer after the last."""


@dataclass(frozen=True, eq=False)
class Recording:
    """Storages of a pass of the whole model, and the operators between which they are alive.

    Attributes
    ----------
    sizes
        Bytes of each storage, shape (storages,).
    layers
        Layer of each storage's maker, shape (storages,).
    born, freed
        Number of the operator that makes a storage, and of the first one that runs without it,
        shape (storages,).
    operator_layers
        Layer of each operator, shape (operators,).
    backward
        Number of the first operator of the loss, which begins the backward pass.
    crossing
        Storages that cross the cut behind each layer, from the inputs to the outputs.
    gradients
        Those of them that have a gradient.
    tensors
        Bytes of the trained parameters, and of the other tensors of the module, that each layer
        uses, by name.
    """

    sizes: NDArray[np.float64]
    layers: NDArray[np.int64]
    born: NDArray[np.int64]
    freed: NDArray[np.int64]
    operator_layers: NDArray[np.int64]
    backward: int
    crossing: tuple[tuple[int, ...], ...]
    gradients: tuple[tuple[int, ...], ...]
    tensors: tuple[tuple[Mapping[str, int], Mapping[str, int]], ...]
