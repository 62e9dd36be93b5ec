"""What cannot be is refused at the call that it was given to, in the caller's terms."""

# mypy: disable-error-code="arg-type, call-arg, list-item"

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.dynacomm.jobs import job_of, vectors
from tests.dynacomm.training.trainings import LENET
from tests.refusals import refusals
from workbench.clusters import Link
from workbench.dynacomm import PLANNERS, LayerCosts, Plan, iteration, layer_costs
from workbench.dynacomm.algorithms.bellman import bellman
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.shards import Shards, split_evenly
from workbench.dynacomm.programs.worker_and_server import Fixed, server, worker
from workbench.dynacomm.training import train
from workbench.profiles import LayerTimes, profile_model

COSTS = vectors([1, 2], [1, 2], [1, 2], [1, 2], overhead_s=0.5)
JOB = job_of(COSTS)
PROFILE = profile_model("lenet5")
TIMES = LayerTimes.from_flops(PROFILE, flops_per_s=1e9, batch_size=8)
LINK = Link(1e6)
EVENLY = split_evenly(len(PROFILE), 1)


ORDER = "where order counts"
CUTS: dict[str, list[Any]] = {
    "give layer numbers": [5, None, "12"],
    ORDER: [{1, 2}],
    "are layer numbers; they must be whole": [
        ("a",),
        (math.nan,),
        (math.inf,),
        np.array([[1, 2]]),
    ],
}
test_plan = refusals(Plan, {}, {"forward_cuts": CUTS, "backward_cuts": CUTS})
test_segments = refusals(
    Plan().segments, {"layers": 3}, {"layers": {"it must be a whole number": ["a", 0, 2.5, None]}}
)
test_layer_costs = refusals(
    LayerCosts,
    dict.fromkeys(("pull_s", "forward_s", "backward_s", "push_s"), (1, 2)) | {"overhead_s": 1},
    {
        "pull_s": {"pull_s takes numbers, not": [["1", "2"]]},
        "push_s": {"push_s takes numbers, not": [[True, False]]},
        "overhead_s": {"give a number": ["0.1", None, True]},
    },
)
test_job = refusals(
    partial(replace, JOB),
    {},
    {
        "workers": {
            r"workers is 0; give indices of nodes, such as \(0, 1\)": [0],
            ORDER: [{0, 2}],
            "an index among the workers is ('a'|-1)": [("a",), (-1,)],
        },
        "servers": {
            "servers is 1; give indices of nodes": [1],
            "an index among the servers is 1.5": [(1.5,)],
        },
        "shards": {r"shards is None; give Shards, such as split_evenly\(": [None]},
        "forward_s": {"forward_s takes one number per layer": [1]},
        "push_bytes": {r"push_bytes takes numbers, not \['a', 1\]": [["a", 1]]},
        "aggregation_s": {"aggregation_s is 'x'; give a number": ["x"]},
        "tensors": {
            "tensors is 5; give the number of each layer": [5],
            "the number of a layer's tensors is 'a'": [("a", "b")],
        },
    },
)
test_shards = refusals(
    Shards, {"share": [[1.0]]}, {"share": {"give a table": [[[]], "a", None, np.ones(2)]}}
)
test_split_evenly = refusals(
    split_evenly,
    {"layers": 2, "servers": 1},
    {
        "layers": {"layers is 'a'; it must be a whole number of at least 1": ["a"]},
        "servers": {"servers is .*; it must be a whole number of at least 1": [1.5, "2"]},
        "starts": {
            "starts is 5; give the first element of each layer": [5],
            ORDER: [{0, 3, 5}],
            "a start of a layer is 'a'": [(0, "a", 3)],
            "go back": [(0, 5, 3)],
        },
    },
)
test_setup = refusals(
    partial(replace, LENET),
    {"workers": 2, "speeds": (1.0, 0.5)},
    {
        "speeds": {
            ORDER: [{1.0, 0.5}, frozenset([1.0, 0.5]), {1.0: 2, 0.5: 1}],
            "speeds is 0.5; give one number for each worker": [0.5],
        }
    },
)
test_server = refusals(
    partial(server, JOB),
    {"position": 0},
    {"position": {"the job has servers at positions 0 to 0": [5, 1, -1, 0.5, None, "0"]}},
)


def test_numpys_cuts_are_legal() -> None:
    assert Plan(np.array([1, 3]), [2.0]) == Plan((1, 3), (2,))


# Anything else in the place of a public value is a TypeError.


@pytest.mark.parametrize("planner", [*PLANNERS.values(), bellman], ids=[*PLANNERS, "bellman"])
def test_a_planner_takes_costs(planner: Any) -> None:
    with pytest.raises(TypeError, match=r"costs is None; give LayerCosts, such as layer_costs\("):
        planner(None)


test_iteration = refusals(
    iteration,
    {"costs": COSTS, "plan": Plan()},
    {
        "costs": {"give LayerCosts, such as": [None, "lenet5", PROFILE]},
        "plan": {r"give a Plan, such as PLANNERS\[": [(1,), None]},
    },
    TypeError,
)
GIVEN = {"profile": PROFILE, "times": TIMES, "link": LINK}
OTHERS: dict[str, dict[str, list[Any]]] = {
    "profile": {r"profile is 'lenet5'; give profile_model\(": ["lenet5"]},
    "times": {"times is None; give LayerTimes, such as": [None]},
    "link": {"link is 1000000.0; give a Link, such as": [1e6]},
}
test_costs_of_layers = refusals(layer_costs, GIVEN, OTHERS, TypeError)
test_job_of = refusals(
    partial(Job.of, iterations=1),
    {**GIVEN, "shards": EVENLY},
    {**OTHERS, "shards": {"shards is None; give Shards": [None]}},
    TypeError,
)
test_job_of_numbers = refusals(
    partial(Job.of, iterations=1),
    {**GIVEN, "shards": EVENLY},
    {"workers": {"workers is 0; it must be a whole number of at least 1": [0]}},
)
test_worker = refusals(
    worker,
    {"job": JOB, "planning": Fixed(Plan())},
    {
        "job": {"job is None; give a Job, such as Job.of": [None]},
        "planning": {r"give Fixed\(plan\), or a Planning": [Plan(), None]},
    },
    TypeError,
)
test_fixed = refusals(Fixed, {"chosen": Plan()}, {"chosen": {"give a Plan": [(1,)]}}, TypeError)


@pytest.mark.parametrize("setup", ["lenet5", None])
def test_train_takes_a_setup(setup: Any) -> None:
    with pytest.raises(TypeError, match=f"setup is {setup!r}; give a Setup"):
        train(setup)


def test_servers_that_would_hold_no_parameter_are_refused() -> None:
    with pytest.raises(
        ValueError, match="servers is 100000; the largest layer has 48120 parameter"
    ):
        replace(LENET, servers=100_000).programs()


def test_memory_does_not_grow_with_the_servers() -> None:
    """Ten thousand copies of LeNet-5, each thrice, would take 7.4 GB."""
    stores = replace(LENET, servers=300).programs().stores
    for name in ("vector", "velocity", "total"):
        assert len({getattr(store, name).data_ptr() for store in stores}) == 1, name
    held = [
        element for store in stores for part in store.own for element in range(*part.indices(10**6))
    ]
    assert sorted(held) == list(range(len(stores[0].vector)))
