"""Random chains of layers, for studies of how planners scale."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench.profiles.model_profile import SCHEMA, ModelProfile
from workbench.utils.checks import UserError


def synthetic_profile(
    layers: int,
    seed: int,
    *,
    mean_param_bytes: float = 1.6e6,
    mean_output_bytes: float = 1.2e6,
    mean_forward_flops: float = 1.5e8,
    spread: float = 1.0,
) -> ModelProfile:
    """Draw a chain whose layers differ as those of convolutional networks do.

    Parameter bytes, output bytes and FLOPs of each layer are log-normal and independent: few
    heavy layers among many light ones, and layers heavy to send need not be heavy to compute.
    The default means are close to those of ResNet-152's layers at 224x224. A layer has two
    tensors; its backward FLOPs are twice the forward's, but for the first, which has no gradient
    by its input.

    Parameters
    ----------
    mean_param_bytes, mean_output_bytes, mean_forward_flops
        Expected value per layer, the last two per sample.
    spread
        Standard deviation of the logarithm; 0 makes all layers equal.
    """
    if layers < 1:
        raise UserError(f"a chain has at least 1 layer, not {layers}")
    if not 0 <= spread < np.inf:
        raise UserError(f"spread is {spread}, not a number of at least 0")
    means = np.array([mean_param_bytes, mean_output_bytes, mean_forward_flops])
    if not np.all((means > 0) & np.isfinite(means)):
        raise UserError(f"the means are {means.tolist()}, not positive numbers")

    generator = np.random.default_rng(seed)
    # exp(normal(m, s)) has the mean exp(m + s²/2).
    draws = generator.lognormal(np.log(means) - spread**2 / 2, spread, size=(layers, 3))
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
