"""Layer times validate themselves, survive their file, and follow FLOPs where they are derived."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest
import torch
from torch import Tensor, nn

from tests.refusals import refusals
from workbench.profiles import LayerTimes, profile_model
from workbench.profiles.layer_times import SCHEMA


def times(**columns: list[object]) -> pl.DataFrame:
    defaults: dict[str, list[object]] = {"layer": ["a", "b"]}
    defaults |= {name: [0.5, 1.0] for name in SCHEMA if name != "layer"}
    return pl.DataFrame(defaults | columns, schema=SCHEMA)


def test_times_sum_and_compare_with_the_iteration() -> None:
    measured = LayerTimes("m", 4, "cpu", times(update_s=[0.0, 0.25]), iteration_s=2.5)
    assert len(measured) == 2
    assert (measured.forward_s, measured.backward_s, measured.update_s) == (1.5, 1.5, 0.25)
    assert measured.layers_over_iteration == pytest.approx(1.2)
    assert LayerTimes("m", 4, "cpu", times()).layers_over_iteration is None


test_layer_times_refused = refusals(
    LayerTimes,
    {"name": "m", "batch_size": 1, "device": "cpu", "table": times()},
    {
        "batch_size": {"must be a whole number of at least 1": [0, -3, 1.0, True, "8", None]},
        "table": {
            "a table of layer times has the columns": [times().drop("update_s")],
            "all layers take 0 s": [times(forward_s=[0.0, 0.0], backward_s=[0.0, 0.0])],
            "backward_s of layer 'b' is": [
                times(backward_s=[1.0, x]) for x in (math.nan, math.inf)
            ],
        },
        "iteration_s": {"iteration_s is": [0.0, -1.0, math.nan, math.inf]},
    },
)
test_from_flops_refused = refusals(
    LayerTimes.from_flops,
    {"profile": profile_model("lenet5"), "flops_per_s": 1e9, "batch_size": 1},
    {
        "flops_per_s": {
            "flops_per_s is .*, not a positive number": [0.0, math.nan],
            "flops_per_s is None; give a number": [None],
        },
        "batch_size": {"batch_size is 0": [0]},
        "backward_over_forward": {"backward_over_forward is -1.0": [-1.0]},
        "bytes_per_s": {"bytes_per_s is .*, not a positive number": [0.0, -1.0, math.nan]},
        "overhead_s": {"overhead_s is": [-1.0, math.inf]},
    },
)


@pytest.mark.parametrize("iteration", [(None, None), (0.1 + 0.2, 1e-17)])
def test_round_trip(iteration: tuple[float | None, float | None], tmp_path: Path) -> None:
    saved = LayerTimes("m", 4, "cuda", times(forward_s=[0.1, 1 / 3]), *iteration, "H100")
    saved.save(tmp_path / "times.parquet")
    loaded = LayerTimes.load(tmp_path / "times.parquet")
    assert loaded == saved
    assert (loaded.iteration_s, loaded.iteration_iqr_s, loaded.kernels) == (*iteration, "H100")
    profile_model("lenet5").save(tmp_path / "profile.parquet")
    with pytest.raises(ValueError, match="holds not a table of layer times but a model profile"):
        LayerTimes.load(tmp_path / "profile.parquet")


def test_bytes_and_overhead_add_to_flops_by_hand() -> None:
    profile = profile_model("lenet5")
    plain = LayerTimes.from_flops(profile, flops_per_s=1e9, batch_size=4)
    slow = LayerTimes.from_flops(
        profile, flops_per_s=1e9, batch_size=4, bytes_per_s=1e6, overhead_s=0.5
    )
    sizes, outputs = profile.table["param_bytes"], profile.table["output_bytes"]
    moved = sizes[1] + 4 * (outputs[0] + outputs[1])
    added = slow.table[:, 1:4] - plain.table[:, 1:4]
    assert added.row(1) == pytest.approx(
        (0.5 + moved / 1e6, 1 + 2 * moved / 1e6, 0.5 + 3 * sizes[1] / 1e6)
    )
    first = sizes[0] + 4 * (profile.sample_bytes + outputs[0])
    assert added.row(0)[0] == pytest.approx(0.5 + first / 1e6)


def test_derived_times_are_proportional_to_flops() -> None:
    profile = profile_model("vgg19")
    derived = LayerTimes.from_flops(profile, flops_per_s=2e12, batch_size=32)
    assert derived.layers == profile.layers
    assert derived.device == "analytic"
    assert derived.forward_s == pytest.approx(profile.forward_flops * 32 / 2e12)
    assert derived.backward_s == pytest.approx(profile.backward_flops * 32 / 2e12)
    assert derived.update_s == pytest.approx(143_667_240 * 2 / 2e12)
    expected = profile.table["forward_flops"] / profile.forward_flops * derived.forward_s
    assert derived.table["forward_s"].to_list() == pytest.approx(expected.to_list())

    stretched = LayerTimes.from_flops(
        profile, flops_per_s=2e12, batch_size=32, backward_over_forward=1.95
    )
    ratios = stretched.table["backward_s"] / stretched.table["forward_s"]
    assert ratios.to_list() == pytest.approx([1.95] * 19)


def test_a_ratio_is_of_layers_in_which_nothing_is_frozen() -> None:
    module = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    module[0].requires_grad_(False)
    module[2].requires_grad_(False)
    times = LayerTimes.from_flops(
        profile_model(module, (4,)), flops_per_s=32.0, batch_size=1, backward_over_forward=3.0
    )
    assert times.table["forward_s"].to_list() == [1.0] * 4
    assert times.table["backward_s"].to_list() == [0.0, 1.5, 1.5, 3.0]
    assert times.table["update_s"].to_list() == [0.0, 1.25, 0.0, 1.25]


def test_frozen_layers_at_the_front_have_no_backward_pass() -> None:
    module = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(3)))
    module[0].requires_grad_(False)
    times = LayerTimes.from_flops(
        profile_model(module, (4,)), flops_per_s=32.0, batch_size=1, bytes_per_s=32, overhead_s=1.0
    )
    moved_s = (64 + 32) / 32
    assert times.table["backward_s"].to_list() == [0.0, 2 + 1 + 2 * moved_s, 2 + 2 + 2 * moved_s]


def test_what_no_gradient_passes_has_no_backward_time() -> None:
    class Features(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            with torch.no_grad():
                return super().forward(input)

    module = nn.Sequential(Features(4, 4).requires_grad_(False), nn.Linear(4, 4))
    times = LayerTimes.from_flops(
        profile_model(module, (4,)), flops_per_s=32.0, batch_size=1, backward_over_forward=3.0
    )
    assert times.table["backward_s"].to_list() == [0.0, 3.0]
