"""Random chains repeat with their seed and are spread as asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.refusals import refusals
from workbench.profiles import synthetic_profile
from workbench.profiles.synthetic import MEANS


def test_a_seed_repeats() -> None:
    assert synthetic_profile(50, seed=7) == synthetic_profile(50, seed=7)
    assert synthetic_profile(50, seed=7) != synthetic_profile(50, seed=8)


def test_shape() -> None:
    profile = synthetic_profile(20, seed=0)
    assert (len(profile), len(synthetic_profile(1, seed=0))) == (20, 1)
    forward = profile.table["forward_flops"].to_numpy()
    backward = profile.table["backward_flops"].to_numpy()
    assert backward[0] == forward[0]
    assert (backward[1:] == 2 * forward[1:]).all()


@pytest.mark.parametrize(
    ("column", "mean"),
    list(zip(("param_bytes", "output_bytes", "forward_flops"), MEANS, strict=True)),
)
def test_log_normal_around_the_mean(column: str, mean: float) -> None:
    """Both moments of the logarithm are within five standard errors."""
    count, spread = 20_000, 0.7
    logarithms = np.log(synthetic_profile(count, 1, spread=spread).table[column].to_numpy())
    assert abs(logarithms.mean() - math.log(mean) + spread**2 / 2) < 5 * spread / math.sqrt(count)
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
    },
)
