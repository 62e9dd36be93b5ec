"""What cannot be is refused at the call that it was given to, in the caller's terms."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.dynacomm.trainings import LENET
from tests.refusals import refusals
from workbench.clusters import Link
from workbench.dynacomm import PLANNERS, LayerCosts, Plan, iteration, layer_costs, timeline
from workbench.dynacomm.paper.testbed import variant
from workbench.dynacomm.planners import bellman
from workbench.dynacomm.profiler import Line, Profile, Replanning
from workbench.dynacomm.programs import Job
from workbench.dynacomm.training import PlanOptions, train
from workbench.profiles import LayerTimes, profile_model

COSTS = LayerCosts([1, 2], [1, 2], [1, 2], [1, 2], overhead_s=0.5)
ORDER = "where order counts"
NO_COSTS = "costs is None; give LayerCosts, such as layer_costs"

CUTS: dict[str, list[Any]] = {
    ORDER: [{1, 2}],
    "must be whole": [("a",), (math.nan,), (math.inf,), (1.5,), (True,), np.array([[1, 2]])],
    "must be increasing layer numbers from 1 on": [(2, 1), (1, 1), (0,), (-1, 1)],
}
test_plan = refusals(Plan, {}, {"forward_cuts": CUTS, "backward_cuts": CUTS})
test_layer_costs = refusals(
    LayerCosts,
    dict.fromkeys(("pull_s", "forward_s", "backward_s", "push_s"), (1, 2)) | {"overhead_s": 1},
    {
        "pull_s": {
            "pull_s takes numbers, not": [["1", "2"], [True, False]],
            "lengths differ": [[1, 2, 3]],
            "at least one layer": [[]],
            "shape": [[[1, 2]]],
        },
        "forward_s": {"forward_s of layer 1 is -1": [[-1, 2]]},
        "push_s": {"push_s of layer 2 is nan": [[1, math.nan]]},
        "overhead_s": {"their sum is not": [1.7e308]},
    },
)
test_setup = refusals(
    partial(replace, LENET),
    {"workers": 2, "speeds": (1.0, 0.5)},
    {
        "speeds": {
            ORDER: [{1.0, 0.5}, {1.0: 2, 0.5: 1}],
            "1 numbers for 2 workers": [(1.0,)],
            "speed of worker0": [(-1.0, 1.0)],
        },
        "layer_times": {
            "batches of 1, but .* same batch size": [
                LayerTimes.from_flops(LENET.profile, flops_per_s=1e9, batch_size=1)
            ],
        },
    },
)
NUMBERS = {"must be a whole number of at least 1": [0, -1, 1.5, None, True]}
test_job_of_a_setup = refusals(LENET.job, {"iterations": 1}, {"iterations": NUMBERS})
test_job = refusals(
    partial(Job.of, LENET.profile, LENET.times, Link(1e6)),
    {"iterations": 1},
    {
        **dict.fromkeys(("iterations", "workers", "servers"), NUMBERS),
        "aggregation_s": {"must be at least 0 and finite": [-1, math.nan, math.inf]},
    },
)
test_replanning = refusals(
    partial(Replanning, LENET.job(1), Profile.before(LENET.job(1), Line(0.0, 1e6))),
    {"period": 1},
    {"period": NUMBERS, "planning_s": {"must be at least 0 and finite": [-1, math.nan]}},
)
test_plan_options = refusals(
    PlanOptions,
    {},
    {
        "planner": {"Did you mean 'dynacomm'": ["dynacom"]},
        "replan_every": {
            "'epoch', None to keep .* or 'auto'": [0, -1, 1.5, True, "epochs", np.array([1, 2])]
        },
        "planning_s": {"planning_s is": [-1, math.nan, math.inf, "long"]},
    },
)


@pytest.mark.parametrize("function", [iteration, timeline])
def test_other_objects_are_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="plan is 'dynacomm'; give a Plan, such as PLANNERS"):
        function(COSTS, "dynacomm")
    with pytest.raises(TypeError, match=NO_COSTS):
        function(None, Plan())


@pytest.mark.parametrize("planner", [*PLANNERS.values(), bellman])
def test_planners_plan_of_costs_alone(planner: Any) -> None:
    with pytest.raises(TypeError, match=NO_COSTS):
        planner(None)


test_not_what_costs_are_made_of = refusals(
    layer_costs,
    {"profile": LENET.profile, "times": LENET.times, "link": Link(1e6)},
    {
        "profile": {"profile is 'lenet5'; give profile_model": ["lenet5"]},
        "times": {"times is None; give LayerTimes": [None]},
        "link": {"link is 1000000.0; give a clusters.Link": [1e6]},
    },
    TypeError,
)


def test_no_nodes_are_made_of_workers_that_cannot_train() -> None:
    with pytest.raises(ValueError, match="1000000000 workers cannot share"):
        replace(LENET, workers=10**9).programs()


def test_numpys_cuts_are_legal() -> None:
    assert Plan(np.array([1, 3]), [2.0]) == Plan((1, 3), (2,))  # type: ignore[arg-type]


def test_cut_behind_the_last_layer_is_refused() -> None:
    with pytest.raises(ValueError, match="a model of 2 layers is cut behind 1 to 1"):
        iteration(COSTS, Plan((), (2,)))


def test_servers_that_would_hold_no_parameter_are_refused() -> None:
    with pytest.raises(ValueError, match="servers is 100000; the largest layer has 48120 param"):
        replace(LENET, servers=100_000).programs()


def test_more_workers_than_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="3 workers cannot share 2 samples"):
        train(replace(LENET, dataset=LENET.dataset.limit(train=2), workers=3))


def test_times_of_another_model_are_refused() -> None:
    other = profile_model("alexnet_cifar")
    times = LayerTimes.from_flops(profile_model("lenet5"), flops_per_s=1e9, batch_size=8)
    with pytest.raises(ValueError, match="do not name the same layers"):
        layer_costs(other, times, Link(1e6))
    with pytest.raises(ValueError, match="do not name the same layers"):
        Job.of(other, times, Link(1e6), iterations=1)


def test_testbed_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="workers is 0"):
        variant(workers=0, bandwidth_mbps=1000)
