"""Random chains of layers, for studies of how planners scale."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench.profiles.model_profile import SCHEMA, ModelProfile
from workbench.utils.checks import UserError, check_whole

MEANS = (1.6e6, 1.2e6, 1.5e8)
"""Parameter bytes, output bytes and FLOPs of a layer, close to those of ResNet-152 at 224x224."""


def synthetic_profile(layers: int, seed: int, *, spread: float = 1.0) -> ModelProfile:
    """Draw a chain whose layers differ as those of convolutional networks do.

    Parameter bytes, output bytes and FLOPs of each layer are log-normal around `MEANS` and
    independent: few heavy layers among many light ones, and layers heavy to send need not be heavy
    to compute. A layer has two tensors; its backward FLOPs are twice the forward's, but for the
    first, which has no gradient by its input.

    `spread` is the standard deviation of the logarithm; 0 makes all layers equal.
    """
    check_whole("layers", layers, 1)
    check_whole("seed", seed, 0)
    if not 0 <= spread < np.inf:
        raise UserError(f"spread is {spread}, not a number of at least 0")
    generator = np.random.default_rng(seed)
    # exp(normal(m, s)) has the mean exp(m + s²/2).
    draws = generator.lognormal(np.log(MEANS) - spread**2 / 2, spread, size=(layers, 3))
    param_bytes, output_bytes, forward_flops = np.maximum(np.rint(draws), 1).astype(np.int64).T
    backward_flops = 2 * forward_flops
    backward_flops[0] = forward_flops[0]
    table = pl.DataFrame(
        {
            "layer": [f"layer{index}" for index in range(1, layers + 1)],
            "param_bytes": param_bytes,
            "param_tensors": np.full(layers, 2),
            "output_bytes": output_bytes,
            "forward_flops": forward_flops,
            "backward_flops": backward_flops,
        },
        schema=SCHEMA,
    )
    return ModelProfile(f"synthetic-{layers}-{seed}", (3, 224, 224), table)
