"""Programs on the simulated network, against the cost model and by what travels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dynacomm.jobs import BPS, job_of, run_job
from tests.dynacomm.strategies import layer_costs
from workbench.clusters import Link, full_mesh, star
from workbench.dynacomm import PLANNERS, LayerCosts, Plan, iteration
from workbench.dynacomm.planners import Planner
from workbench.dynacomm.programs import (
    FixedPlan,
    Job,
    SegmentTime,
    Server,
    Worker,
    plain,
    worker_and_server,
)
from workbench.profiles import LayerTimes, profile_model
from workbench.runtime import ProgramError, Synchronized, Transfer, simulate
from workbench.training.data_parallel import Parts

SMALL = LayerCosts([1, 2, 1], [2, 1, 2], [1, 3, 1], [2, 1, 1], overhead_s=0.5)


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS)
@settings(deadline=None)
@given(costs=layer_costs(max_layers=12))
def test_simulated_equals_predicted(planner: Planner, costs: LayerCosts) -> None:
    plan = planner(costs)
    run = run_job(job_of(costs, 3), FixedPlan(plan), Link(BPS, costs.overhead_s))
    assert run.end_s == pytest.approx(3 * iteration(costs, plan).total_s, rel=1e-9)
    assert run.trace is not None
    ends_s = [0.0, *run.trace.frame.filter(pl.col("lane") == "step")["end_s"]]
    single_s = iteration(costs, plan).total_s
    assert np.diff(ends_s) == pytest.approx([single_s] * 3, rel=1e-9)


@dataclass
class Counting:
    """A replica, or a store, that counts how often each element came."""

    size: int
    counts: list[np.ndarray] = field(default_factory=list)
    learnt: list[int] = field(default_factory=list)

    def write(self, pieces: Parts) -> None:
        for where, values in pieces:
            assert len(values) == where.stop - where.start
            self.counts[-1][where] += 1

    def forward(self, number: int, first: int, last: int) -> None:
        pass

    def backward(self, number: int, first: int, last: int) -> None:
        if last == 3:
            self.learnt.append(number)
            self.counts.append(np.zeros(self.size))

    def gradients(self, where: Sequence[slice]) -> Parts:
        return [(one, np.ones(one.stop - one.start)) for one in where]

    parameters = gradients

    def step(self, gradients: Sequence[Parts]) -> None:
        self.counts.append(np.zeros(self.size))
        for pieces in gradients:
            self.write(pieces)


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS)
@pytest.mark.parametrize("hub", [None, 0, 1])
def test_every_number_is_pulled_and_pushed_once_an_iteration(
    planner: Planner, hub: int | None
) -> None:
    """By two workers and two servers; or by two workers, of which one is the server, too."""
    servers, iterations, plan = 1 if hub is not None else 2, 3, planner(SMALL)
    job = replace(job_of(SMALL, iterations, 2, servers), starts=(0, 5, 6, 16), hub=hub)
    replicas = [Counting(16, [np.zeros(16)]) for _ in range(2)]
    stores: list[Any] = [Counting(16) for _ in range(servers)]
    held: list[Any] = [Synchronized(replica) for replica in replicas]
    programs: list[Any] = [Worker(job, FixedPlan(plan), one) for one in held]
    if hub is None:
        programs += [Server(job, at, store) for at, store in enumerate(stores)]
        run = simulate(star(2, 2, Link(BPS, 0.5)), programs)
    else:
        programs[hub] = worker_and_server(job, FixedPlan(plan), held[hub], stores[0])
        run = simulate(full_mesh(2, Link(BPS, 0.5)), programs)
        assert run.end_s == pytest.approx(iterations * iteration(SMALL, plan).total_s)
    for replica in replicas:
        assert replica.learnt == [0, 1, 2]
        assert np.array_equal(replica.counts[:-1], np.ones((iterations, 16)))
    for number in range(iterations):
        together = sum(store.counts[number] for store in stores)
        assert np.array_equal(together, np.full(16, 2))
    remote = 2 if hub is None else 1  # workers that need a link
    carried = iterations * remote * (job.pull_bytes.sum() + job.push_bytes.sum())
    assert run.bytes == pytest.approx(carried)


@given(costs=layer_costs(max_layers=5), workers=st.integers(1, 3), servers=st.integers(1, 3))
@settings(deadline=None, max_examples=40)
def test_any_number_of_workers_and_servers_ends(
    costs: LayerCosts, workers: int, servers: int
) -> None:
    job = job_of(costs, 2, workers, servers)
    run = run_job(job, FixedPlan(PLANNERS["layer_by_layer"](costs)), Link(BPS, costs.overhead_s))
    assert run.ended == "done"
    assert [run.results[workers + at] for at in range(servers)] == [2] * servers
    assert [len(run.results[index].plans) for index in range(workers)] == [2] * workers


def test_observation_is_what_the_links_did() -> None:
    run = run_job(job_of(SMALL, 2), FixedPlan(Plan((1,), (2,))), Link(BPS, 0.5))
    first, second = run.results[0].observations

    def busy(transfers: tuple[Transfer, ...]) -> list[float]:
        return [value for one in transfers for value in (one.size_bytes, one.end_s - one.start_s)]

    assert busy(first.pulls) == [1e6, 1.5, 3e6, 3.5]
    assert busy(first.pushes) == [1e6, 1.5]  # the other is on its way
    assert busy(second.pushes) == pytest.approx([3e6, 3.5, 1e6, 1.5])
    assert first.forward == (SegmentTime(1, 1, 2), SegmentTime(2, 3, 3))
    assert first.backward == (SegmentTime(3, 3, 1), SegmentTime(1, 2, 4))


@given(
    costs=layer_costs(max_layers=7),
    counts=st.lists(st.integers(0, 4), min_size=7, max_size=7),
    tensor_s=st.floats(0, 3),
    cuts=st.sets(st.integers(1, 6)),
    servers=st.integers(1, 3),
)
@settings(deadline=None)
def test_what_tensors_cost_is_charged_as_predicted(
    costs: LayerCosts, counts: list[int], tensor_s: float, cuts: set[int], servers: int
) -> None:
    kept = tuple(sorted(cut for cut in cuts if cut < costs.layers))
    plan, tensors = Plan(kept, kept[::2]), tuple(counts[: costs.layers])
    job = replace(job_of(costs, 2, servers=servers), tensors=tensors)
    link = Link(BPS / servers, costs.overhead_s, tensor_s=tensor_s)
    run = run_job(job, FixedPlan(plan), link)
    more_s = np.array(tensors) * tensor_s
    dearer = LayerCosts(
        costs.pull_s + more_s,
        costs.forward_s,
        costs.backward_s,
        costs.push_s + more_s,
        costs.overhead_s,
    )
    assert run.end_s == pytest.approx(2 * iteration(dearer, plan).total_s, rel=1e-9)


def test_a_plan_of_another_model_is_told() -> None:
    with pytest.raises(ProgramError, match="a cut behind layer 7, but a model of 3 layers"):
        run_job(job_of(SMALL), FixedPlan(Plan((7,))), Link(BPS))


def test_job_of_a_model_counts_its_bytes_and_tensors() -> None:
    lenet = profile_model("lenet5")
    times = LayerTimes.from_flops(lenet, flops_per_s=1e9, batch_size=4)
    link = Link(BPS, tensor_s=0.1, split_bytes=1000, whole_share=0.5)
    job = Job.of(lenet, times, link, iterations=3, workers=4)
    assert job.segment(1, 2).message(0, "push", (), 6.0).tensor_bytes == (1.5,) * 4
    assert job.tensors == (2,) * len(lenet)
    assert job.pull_bytes.tolist() == [link.weighted_bytes(one) for one in lenet.tensor_bytes]
    assert job.pull_bytes.sum() > lenet.param_bytes
    assert plain(link).weighted_bytes([10]) == 10


def split(starts: list[int], servers: int) -> Job:
    layers = np.ones(len(starts) - 1)
    return Job(layers, layers, layers, layers, 1, servers=servers, starts=starts)


def test_even_split_by_hand() -> None:
    job = split([0, 4, 7], servers=2)
    assert job.segment(1, 2).where == [[slice(0, 2), slice(4, 6)], [slice(2, 4), slice(6, 7)]]
    assert job.held(1, 2, 2) == [slice(6, 7)]
    assert split([0, 1, 3], servers=1).held(0, 1, 2) == [slice(0, 3)]


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=6), servers=st.integers(1, 5))
def test_every_element_has_one_server(sizes: list[int], servers: int) -> None:
    job = split([0, *np.cumsum(sizes).tolist()], servers)
    held = np.zeros(sum(sizes))
    for slices in job.segment(1, len(sizes)).where:
        for where in slices:
            held[where] += 1
    assert (held == 1).all()
