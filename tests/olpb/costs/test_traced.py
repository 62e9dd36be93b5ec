"""Subtasks of a recorded pass cost what the model's profile says."""

from __future__ import annotations

import pytest
import torch

from workbench.olpb.algorithms.levels import groups
from workbench.olpb.algorithms.tape import record
from workbench.olpb.costs.traced import subtasks_of
from workbench.profiles import profile_model
from workbench.zoo import build


@pytest.mark.parametrize(
    ("unit", "levels"), [("operator", 1), ("operator", 3), ("matrix_layer", 1)]
)
def test_subtasks_cost_what_the_profile_says(unit: str, levels: int) -> None:
    x, y = torch.randn(2, 1, 28, 28), torch.tensor([3, 4])
    tape = record(build("lenet5"), x, y)
    subtasks = subtasks_of(tape, groups(tape.flow, unit, levels))
    profile = profile_model("lenet5")
    assert sum(one.backward_flops for one in subtasks) == 2 * profile.backward_flops
    if unit == "matrix_layer":
        costs = [one.backward_flops for one in subtasks[:0:-1]]
        assert costs == [2 * one for one in profile.table["backward_flops"]]
        boundaries = [one.boundary_bytes for one in subtasks[:1:-1]]
        assert boundaries == [2 * one for one in profile.table["output_bytes"][:-1]]
