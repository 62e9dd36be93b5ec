"""What cannot be is refused at the call that it was given to, in the caller's terms."""

# mypy: disable-error-code="arg-type, call-arg, list-item"

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from workbench import datasets
from workbench.hiertrain import TIERS, Chain, Hybrid, problem_of
from workbench.hiertrain.training import Setup
from workbench.profiles import profile_model

PROBLEM = problem_of(
    profile_model("lenet5"),
    flops_per_s=dict.fromkeys(TIERS, 1e9),
    device_edge_bps=5e6,
    edge_cloud_bps=3e6,
    batch=8,
)
DIGITS = datasets.load("digits").limit(train=16, test=8).fitted((1, 28, 28))
SETUP = Setup("lenet5", DIGITS, PROBLEM)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Hybrid(set(TIERS), 1, 2, 1, 1, 1),
            "order is {.*}, where order counts; give the t",
        ),
        (lambda: Hybrid(5, 1, 2, 1, 1, 1), "order is 5; give the tiers of workers o, s and l"),
        (lambda: Hybrid("edge", 1, 2, 1, 1, 1), "order is 'edge'; give the tiers"),
        (lambda: Hybrid((1, 2, "edge"), 1, 2, 1, 1, 1), "each of device, edge, cloud once"),
        (lambda: Chain({"edge"}, 8), "tiers is {'edge'}, where order counts; name one tier per"),
        (lambda: Chain(5, 8), "tiers is 5; name one tier per layer"),
    ],
)
def test_values_of_another_kind_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("problem", [5, None, "lenet5"])
def test_a_setup_takes_a_problem(problem: Any) -> None:
    with pytest.raises(TypeError, match=f"the problem is {problem!r}; give a Problem"):
        replace(SETUP, problem=problem)
