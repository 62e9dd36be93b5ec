"""A profile validates itself and survives its file; random chains are spread as asked for."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.refusals import refusals
from workbench.profiles import ModelProfile, Tied, profile_model, synthetic_profile
from workbench.profiles.model_profile import SCHEMA
from workbench.profiles.synthetic import MEANS


def table(**columns: list[object]) -> pl.DataFrame:
    defaults: dict[str, list[object]] = {"layer": ["a", "b"]}
    defaults |= {name: [1, 2] for name in SCHEMA if name != "layer"}
    return pl.DataFrame(defaults | columns, schema=SCHEMA)


def test_totals_and_length() -> None:
    profile = ModelProfile("small", (3,), table(param_bytes=[10, 20], output_bytes=[7, 5]))
    assert len(profile) == 2
    assert profile.layers == ("a", "b")
    assert (profile.param_bytes, profile.param_tensors) == (30, 3)
    assert profile.output_bytes == 5  # what leaves the model, not a sum of cuts
    assert (profile.forward_flops, profile.backward_flops) == (3, 3)


test_refused = refusals(
    ModelProfile,
    {"name": "small", "input_shape": (3,), "table": table()},
    {
        "table": {
            "a model profile has the columns": [
                table().drop("param_bytes"),
                table().cast({"param_bytes": pl.Float64}),
            ],
            "at least one row": [table().head(0)],
            "'a' appears twice": [table(layer=["a", "a"])],
            "output_bytes of layer 'b' is -2": [table(output_bytes=[1, -2])],
            "param_tensors of layer 'a' is None": [table(param_tensors=[None, 2])],
        },
        "tensor_bytes": {"tensor_bytes do not add up": [((1,), (1, 2))]},
        "tied": {
            "tied has layers .*; give two or more of 1 to 2": [((4, (1,)),), ((4, (1, 3)),)],
            "layer of a tied weight is 0": [((4, (0, 1)),)],
        },
        "frozen_bytes": {"frozen_bytes has 1 numbers for 2 layers; give one each": [(1,)]},
    },
)


def test_sizes_of_tensors() -> None:
    sizes = profile_model("lenet5").tensor_bytes
    assert sizes[0] == (6 * 25 * 4, 6 * 4)
    assert ModelProfile("even", (3,), table(param_bytes=[9, 5])).tensor_bytes == ((9,), (3, 2))


@pytest.mark.parametrize(
    "profile",
    [
        profile_model("lenet5"),
        synthetic_profile(40, seed=3),
        ModelProfile("two inputs", ((3, 4), (5,)), table()),
        ModelProfile("tied", (3,), table(), tied=(Tied(4, (1, 2)),)),
        ModelProfile(
            "partly frozen", (3,), table(), frozen_bytes=(0, 8), unfrozen_backward_flops=(9, 9)
        ),
    ],
    ids=lambda profile: profile.name,
)
def test_round_trip(profile: ModelProfile, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "profile.parquet"
    profile.save(path)
    loaded = ModelProfile.load(path)
    assert loaded == profile
    assert hash(loaded) == hash(profile)
    assert loaded.input_shape == profile.input_shape
    assert [entry.name for entry in path.parent.iterdir()] == ["profile.parquet"]
    assert pl.read_parquet(path).equals(profile.table)  # anyone can read the table


def test_equality_looks_at_everything() -> None:
    profile = profile_model("lenet5")
    assert profile != ModelProfile("other", profile.input_shape, profile.table)
    assert profile != ModelProfile(profile.name, (1, 1, 1), profile.table)
    more = profile.table.with_columns(pl.col("param_bytes") + 1)
    assert profile != ModelProfile(profile.name, profile.input_shape, more)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    table().write_parquet(path)
    with pytest.raises(ValueError, match="holds not a model profile but another program's table"):
        ModelProfile.load(path)


def test_a_seed_repeats_a_random_chain() -> None:
    assert synthetic_profile(50, seed=7) == synthetic_profile(50, seed=7)
    assert synthetic_profile(50, seed=7) != synthetic_profile(50, seed=8)


def test_shape_of_a_random_chain() -> None:
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


test_synthetic_refused = refusals(
    synthetic_profile,
    {"layers": 3, "seed": 0},
    {
        "layers": {"layers is .*whole number of at least 1": [0, 2.5, "a"]},
        "seed": {"seed is .*whole number of at least 0": [-1, "a"]},
        "spread": {"spread is .*, not a number of at least 0": [-1.0, math.nan]},
    },
)
