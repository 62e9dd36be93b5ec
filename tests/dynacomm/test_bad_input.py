"""What cannot be is refused at the call that it was given to, in the caller's terms."""

# mypy: disable-error-code="arg-type, call-arg, list-item"

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.dynacomm.jobs import job_of, vectors
from tests.dynacomm.training.trainings import LENET
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


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        (5, r"_cuts is 5; give layer numbers, such as \(1, 3\)"),
        (None, "_cuts is None; give layer numbers"),
        ("12", "_cuts is '12'; give layer numbers"),
        ({1, 2}, "_cuts is {1, 2}, where order counts; give layer numbers"),
        (("a",), r"_cuts \('a',\) are layer numbers; they must be whole"),
        ((math.nan,), r"_cuts \(nan,\) are layer numbers; they must be whole"),
        ((math.inf,), r"_cuts \(inf,\) are layer numbers; they must be whole"),
        (np.array([[1, 2]]), "are layer numbers; they must be whole"),
    ],
)
def test_cuts_are_layer_numbers(place: int, cuts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(*[() for _ in range(place)], cuts)


@pytest.mark.parametrize("layers", ["a", 0, 2.5, None])
def test_a_plan_is_shown_for_a_number_of_layers(layers: Any) -> None:
    with pytest.raises(ValueError, match=f"layers is {layers!r}; it must be a whole number"):
        Plan().segments(layers)


def test_numpys_cuts_are_legal() -> None:
    assert Plan(np.array([1, 3]), [2.0]) == Plan((1, 3), (2,))


@pytest.mark.parametrize("planner", [*PLANNERS.values(), bellman], ids=[*PLANNERS, "bellman"])
@pytest.mark.parametrize("costs", [None, "lenet5", PROFILE], ids=type)
def test_a_planner_takes_costs(planner: Any, costs: Any) -> None:
    with pytest.raises(
        TypeError, match=r"costs is (.|\n)*; give LayerCosts, such as layer_costs\("
    ):
        planner(costs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: iteration(COSTS, (1,)), r"plan is \(1,\); give a Plan, such as PLANNERS\["),
        (lambda: iteration(COSTS, None), "plan is None; give a Plan"),
        (lambda: iteration(None, Plan()), "costs is None; give LayerCosts"),
        (lambda: layer_costs("lenet5", None, LINK), r"profile is 'lenet5'; give profile_model\("),
        (lambda: layer_costs(PROFILE, None, LINK), "times is None; give LayerTimes, such as"),
        (lambda: layer_costs(PROFILE, TIMES, 1e6), "link is 1000000.0; give a Link, such as"),
        (lambda: Job.of("lenet5", TIMES, LINK, shards=EVENLY, iterations=1), "profile is 'lenet5'"),
        (lambda: Job.of(PROFILE, TIMES, 1e6, shards=EVENLY, iterations=1), "link is 1000000.0"),
        (lambda: Job.of(PROFILE, TIMES, LINK, shards=None, iterations=1), "shards is None; give S"),
        (lambda: worker(JOB, Plan()), r"planning is Plan\(.*; give Fixed\(plan\), or a Planning"),
        (lambda: worker(JOB, None), r"planning is None; give Fixed\(plan\)"),
        (lambda: worker(None, Fixed(Plan())), "job is None; give a Job, such as Job.of"),
        (lambda: Fixed((1,)), r"plan is \(1,\); give a Plan"),
        (lambda: server(COSTS, 0), "job is LayerCosts.*; give a Job"),
        (lambda: train("lenet5"), "setup is 'lenet5'; give a Setup"),
        (lambda: train(None), "setup is None; give a Setup"),
    ],
)
def test_something_else_is_refused(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize("position", [5, 1, -1, 0.5, None, "0"])
def test_a_server_has_a_position_in_the_job(position: Any) -> None:
    with pytest.raises(
        ValueError, match=f"position is {position!r}; the job has servers at positions 0 to 0"
    ):
        server(JOB, position)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": 0}, r"workers is 0; give indices of nodes, such as \(0, 1\)"),
        ({"workers": {0, 2}}, "workers is {0, 2}, where order counts"),
        ({"workers": ("a",)}, "an index among the workers is 'a'; it must be a whole number"),
        ({"workers": (-1,)}, "an index among the workers is -1"),
        ({"servers": 1}, "servers is 1; give indices of nodes"),
        ({"servers": (1.5,)}, "an index among the servers is 1.5"),
        ({"shards": None}, r"shards is None; give Shards, such as split_evenly\(layers, servers\)"),
        ({"forward_s": 1}, "forward_s takes one number per layer"),
        ({"push_bytes": ["a", 1]}, r"push_bytes takes numbers, not \['a', 1\]"),
        ({"aggregation_s": "x"}, "aggregation_s is 'x'; give a number"),
        ({"tensors": 5}, "tensors is 5; give the number of each layer"),
        ({"tensors": ("a", "b")}, "the number of a layer's tensors is 'a'"),
    ],
)
def test_a_job_of_something_else_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(JOB, **change)
    with pytest.raises(ValueError, match="workers is 0; it must be a whole number of at least 1"):
        Job.of(PROFILE, TIMES, LINK, shards=EVENLY, iterations=1, workers=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: split_evenly("a", 1), "layers is 'a'; it must be a whole number of at least 1"),
        (lambda: split_evenly(2, 1.5), "servers is 1.5; it must be a whole number of at least 1"),
        (lambda: split_evenly(2, 1, 5), "starts is 5; give the first element of each layer"),
        (lambda: split_evenly(2, 1, {0, 3, 5}), "starts is {0, 3, 5}, where order counts"),
        (lambda: split_evenly(2, 1, (0, "a", 3)), "a start of a layer is 'a'"),
        (lambda: split_evenly(2, 1, (0, 5, 3)), r"starts \(0, 5, 3\) go back"),
        (lambda: split_evenly(2, "2"), "servers is '2'"),
        (lambda: Shards([[]]), "share is .*; give a table of shares"),
        (lambda: Shards("a"), "share is 'a'; give a table of shares, a row for each server"),
        (lambda: Shards(None), "share is None; give a table"),
        (lambda: Shards(np.ones(2)), "share is array.*; give a table"),
    ],
)
def test_shards_of_something_else_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pull_s": ["1", "2"]}, r"pull_s takes numbers, not \['1', '2'\]"),
        ({"push_s": [True, False]}, r"push_s takes numbers, not \[True, False\]"),
        ({"overhead_s": "0.1"}, "overhead_s is '0.1'; give a number"),
        ({"overhead_s": None}, "overhead_s is None; give a number"),
        ({"overhead_s": True}, "overhead_s is True; give a number"),
    ],
)
def test_costs_are_numbers(change: dict[str, Any], message: str) -> None:
    good = {name: [1, 2] for name in ("pull_s", "forward_s", "backward_s", "push_s")}
    with pytest.raises(ValueError, match=message):
        LayerCosts(**({**good, "overhead_s": 1} | change))


@pytest.mark.parametrize(
    ("speeds", "message"),
    [
        ({1.0, 0.5}, r"speeds is {.*}, where order counts; give one number for each worker"),
        (frozenset([1.0, 0.5]), "where order counts; give one number for each worker"),
        ({1.0: 2, 0.5: 1}, "where order counts; give one number for each worker"),
        (0.5, "speeds is 0.5; give one number for each worker"),
    ],
)
def test_speeds_have_an_order(speeds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(LENET, workers=2, speeds=speeds)


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
