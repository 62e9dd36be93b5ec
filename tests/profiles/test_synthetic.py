"""Random chains repeat with their seed and are spread as asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.refusals import refusals
from workbench.profiles import synthetic_profile


def test_a_seed_repeats() -> None:
    assert synthetic_profile(50, seed=7) == synthetic_profile(50, seed=7)
    assert synthetic_profile(50, seed=7) != synthetic_profile(50, seed=8)


@pytest.mark.parametrize("layers", [1, 2, 2000])
def test_shape(layers: int) -> None:
    profile = synthetic_profile(layers, seed=0)
    assert len(profile) == layers
    forward = profile.table["forward_flops"].to_numpy()
    backward = profile.table["backward_flops"].to_numpy()
    assert backward[0] == forward[0]
    assert (backward[1:] == 2 * forward[1:]).all()


@pytest.mark.parametrize("column", ["param_bytes", "output_bytes", "forward_flops"])
def test_log_normal_with_the_mean_asked_for(column: str) -> None:
    """Both moments of the logarithm are within five standard errors."""
    count, spread, mean = 20_000, 0.7, 1e6
    profile = synthetic_profile(
        count,
        seed=1,
        mean_param_bytes=mean,
        mean_output_bytes=mean,
        mean_forward_flops=mean,
        spread=spread,
    )
    logarithms = np.log(profile.table[column].to_numpy())
    centre = math.log(mean) - spread**2 / 2
    assert abs(logarithms.mean() - centre) < 5 * spread / math.sqrt(count)
    assert abs(logarithms.std() - spread) < 5 * spread / math.sqrt(2 * count)


def test_no_spread_makes_all_layers_equal() -> None:
    table = synthetic_profile(9, seed=0, spread=0.0).table
    assert table.drop("layer", "backward_flops").n_unique() == 1


test_refused = refusals(
    synthetic_profile,
    {"layers": 3, "seed": 0},
    {
        "layers": {"at least 1 layer, not 0": [0]},
        "spread": {"spread is .*, not a number of at least 0": [-1.0, math.nan]},
        "mean_param_bytes": {"not positive numbers": [0.0]},
    },
)
