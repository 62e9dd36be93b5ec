"""Steps of SGD that accumulate the gradients of several batches."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.comparison.test_learning import PROFILE, even, problem_of, task
from tests.comparison.test_memory import of
from tests.hiertrain.strategies import hybrids, problems
from tests.oracles.hiertrain import all_hybrids
from workbench import hiertrain
from workbench.clusters import Cluster, Link, Node, full_mesh, star
from workbench.comparison import METHODS, Problem, UnusableError, compare
from workbench.comparison.compare import compared
from workbench.comparison.learning.sgd import Batches, Clock, learn
from workbench.comparison.methods.method import EQUAL, STEPS, Method
from workbench.comparison.text import shown
from workbench.dynacomm import PLANNERS, iteration, layer_costs
from workbench.hiertrain.programs import cluster_of, programs_of
from workbench.runtime import simulate
from workbench.utils.checks import UserError

STREAMED = "one node, samples sent each epoch"
FITTING = (
    "one node",
    "one node, samples sent once",
    "all-reduce",
    "parameter server, dynacomm",
)
WORKERS = [Node(f"n{at}", flops_per_s=10.0 ** (8 + at), samples=100) for at in range(3)]


def accumulating(batches: int, cluster: Cluster, batch_size: int = 8) -> Problem:
    return Problem(PROFILE, cluster, batch_size, accumulate=batches)


def rate(name: str, problem: Problem) -> float:
    return METHODS[name].plan(problem).cost.samples_per_s


class TestByHand:
    def test_an_all_reduce_exchanges_once_after_all_batches_of_the_slowest(self) -> None:
        problem = accumulating(4, full_mesh(WORKERS, Link(1e7, overhead_s=0.01)))
        times = problem.layer_times(0)
        computing_s = 4 * (times.forward_s + times.backward_s) + times.update_s
        exchange_s = 0.01 + 8 * problem.model_bytes / 3 / 1e7
        plan = METHODS["all-reduce"].plan(problem)
        assert plan.cost.iteration_s == pytest.approx(computing_s + 2 * exchange_s)
        assert plan.cost.samples == 4 * 8 * 3
        assert set(plan.batches.values()) == {8}

    @pytest.mark.parametrize("planner", PLANNERS)
    def test_a_worker_pulls_before_the_first_batch_and_pushes_in_the_last(
        self, planner: str
    ) -> None:
        nodes = [Node("a", flops_per_s=1e9, samples=100), Node("b", flops_per_s=1e10)]
        problem = accumulating(3, full_mesh(nodes, Link(1e7, overhead_s=0.001)))
        times = problem.layer_times(0)
        costs = layer_costs(PROFILE, times, problem.cluster.link(0, 1))
        single_s = iteration(costs, PLANNERS[planner](costs)).total_s
        plan = METHODS[f"parameter server, {planner}"].plan(problem)
        expected_s = single_s + 2 * (times.forward_s + times.backward_s)
        assert plan.cost.iteration_s == pytest.approx(expected_s)
        assert plan.predicted_s == pytest.approx(expected_s)

    @pytest.mark.parametrize("bandwidth_bps", [1e5, 1e12])
    def test_samples_of_a_step_are_sent_for_all_its_batches(self, bandwidth_bps: float) -> None:
        nodes = [Node("a", flops_per_s=1e9, samples=100), Node("b", flops_per_s=1e10)]
        problem = accumulating(5, full_mesh(nodes, Link(bandwidth_bps)))
        times = problem.layer_times(1)
        computing_s = 5 * (times.forward_s + times.backward_s) + times.update_s
        sent_s = 8 * 5 * 8 * 4 * 28 * 28 / bandwidth_bps
        cost = METHODS[STREAMED].plan(problem).cost
        assert cost.iteration_s == pytest.approx(max(computing_s, sent_s))
        assert cost.samples == 5 * 8


class TestTiers:
    @given(problem=problems(3, 3), count=st.integers(2, 4), data=st.data())
    @settings(max_examples=30, deadline=None)
    def test_phases_repeat_and_weights_are_updated_once(
        self, problem: hiertrain.Problem, count: int, data: st.DataObject
    ) -> None:
        policy = data.draw(hybrids(problem))
        single = hiertrain.iteration(problem, policy)
        accumulated = replace(problem, accumulate=count)
        predicted_s = hiertrain.iteration(accumulated, policy).total_s
        passes_s = single.forward_s + single.backward_s
        assert predicted_s == pytest.approx(count * passes_s + single.update_s)
        barriers, free = (
            simulate(
                cluster_of(accumulated), programs_of(accumulated, policy, 1, barriers=barriers)
            ).end_s
            for barriers in (True, False)
        )
        assert barriers == pytest.approx(predicted_s, rel=1e-6)
        assert free <= predicted_s * (1 + 1e-6)

    @given(problem=problems(2, 2), count=st.integers(2, 4))
    @settings(max_examples=15, deadline=None)
    def test_no_other_policy_is_faster(self, problem: hiertrain.Problem, count: int) -> None:
        problem = replace(problem, accumulate=count)
        best_s = hiertrain.iteration(problem, hiertrain.PLANNERS["hiertrain"](problem)).total_s
        others_s = [
            hiertrain.iteration(problem, hiertrain.Hybrid((o, s, last), *rest)).total_s
            for (o, s, last), *rest in all_hybrids(problem.layers, problem.batch)
        ]
        assert best_s == pytest.approx(min(others_s), rel=1e-9)

    def test_their_own_training_takes_a_step_for_each_batch(self) -> None:
        problem = hiertrain.problem_of(
            PROFILE,
            flops_per_s={"device": 1e9, "edge": 1e10, "cloud": 1e11},
            device_edge_bps=5e6,
            edge_cloud_bps=3e6,
            batch=8,
        )
        with pytest.raises(UserError, match="the problem accumulates 2 batches; training takes"):
            hiertrain.Setup("lenet5", task().dataset, replace(problem, accumulate=2))


@pytest.fixture(scope="module")
def both() -> pl.DataFrame:
    """All methods with one batch a step, and with four."""
    nodes = [*WORKERS, Node("server", flops_per_s=1e10)]
    cluster = full_mesh([replace(node, memory_bytes=1e9) for node in nodes], Link(1e7))
    single, many = (
        compared(replace(accumulating(count, cluster), memory=of("lenet5"))).frame
        for count in (1, 4)
    )
    return single.join(many, on="method", suffix="_4")


def test_each_sample_costs_a_part_of_the_bytes_of_gradients_and_the_memory_stays(
    both: pl.DataFrame,
) -> None:
    both = both.filter(pl.col("update").is_in(STEPS))
    for name in ("all-reduce", "parameter server, dynacomm", "baseline"):
        row = both.row(by_predicate=pl.col("method") == name, named=True)
        assert row["bytes_per_sample_4"] == pytest.approx(row["bytes_per_sample"] / 4, rel=1e-9)
    same = both.filter(~pl.col("system").is_in(["HierTrain", "pipeline"]))  # other plans
    assert same["memory_bytes"].equals(same["memory_bytes_4"].alias("memory_bytes"))
    assert (both["samples_per_step_4"] == 4 * both["samples_per_step"]).all()
    assert (both["samples_per_s_4"] >= both["samples_per_s"] * (1 - 1e-9)).all()


@pytest.mark.parametrize("method", ["all-reduce", "parameter server, dynacomm", "baseline"])
def test_rates_rise_where_links_limit_and_stay_where_computing_does(method: str) -> None:
    slow, fast = (star(WORKERS, [Node("s", flops_per_s=1e6)], Link(bps)) for bps in (1e5, 1e13))
    ratios = [
        rate(method, accumulating(4, cluster)) / rate(method, accumulating(1, cluster))
        for cluster in (slow, fast)
    ]
    assert ratios[0] > 3.5
    assert 1 - 1e-6 < ratios[1] < 1.05  # one update in place of four


def test_methods_with_other_updates_ignore_it_and_say_so(both: pl.DataFrame) -> None:
    both = both.filter(pl.col("reason").is_null())
    others = both.filter(~pl.col("update").is_in(STEPS))
    assert len(others) > 5
    assert others["samples_per_step_4"].is_null().all()
    assert others["samples_per_s"].equals(others["samples_per_s_4"].alias("samples_per_s"))
    phrase = "gradients are not accumulated: batches have 8 samples"
    assert others["assumes_4"].str.contains(phrase, literal=True).all()
    assert not both.filter(pl.col("update").is_in(STEPS))["assumes_4"].str.contains(phrase).any()


def test_a_method_equal_to_sgd_whose_steps_cannot_accumulate_is_refused() -> None:
    single = METHODS["all-reduce"].plan(accumulating(1, even()))
    fixed = Method(name="fixed", system="fixed", update=EQUAL, planner=lambda problem: single)
    assert fixed.plan(accumulating(1, even())) is single
    with pytest.raises(UnusableError, match="cannot accumulate"):
        fixed.plan(accumulating(2, even()))


class TestSmallerBatches:
    """Checked against the table of each smaller batch."""

    @pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.1])
    @pytest.mark.parametrize("moves", [True, False])
    def test_are_the_largest_with_which_another_method_fits(
        self, share: float, *, moves: bool
    ) -> None:
        room = share * of("lenet5")(24)
        nodes = [replace(node, memory_bytes=room) for node in WORKERS]
        cluster = replace(full_mesh(nodes, Link(1e7)), raw_samples_may_leave=moves)
        problem = replace(accumulating(2, cluster, 24), memory=of("lenet5"))
        found = compared(problem, [METHODS[name] for name in (*FITTING, "hiertrain")])
        smaller, before = found.smaller_batches, set[str]()
        for size in (24, 12, 6, 3, 1):
            changed = replace(problem, batch_size=size, accumulate=48 // size)
            frame = compared(changed, [METHODS[name] for name in FITTING]).frame
            exact = frame.filter(pl.col("reason").is_null() & (pl.col("samples_share") == 1))
            fitting = {*exact.filter(pl.col("fits"))["method"]}
            if size == 24:
                before = fitting
            elif fitting - before:
                break
        else:
            assert smaller is None
            return
        assert smaller is not None
        assert (smaller.batch_size, smaller.accumulate) == (size, 48 // size)
        assert {*smaller.methods} == fitting - before
        assert str(smaller) in str(found)
        assert f"batches of {size} accumulated {48 // size} times" in str(smaller)


class TestLearning:
    def test_steps_equal_those_of_one_batch_where_nothing_normalises(self) -> None:
        one = task(batch_size=16)
        parts, whole = (
            learn(one, Batches((0,), (size,), accumulates), 3, (4,))
            for size, accumulates in ((8, 2), (16, 1))
        )
        assert parts["samples"].equals(whole["samples"])
        assert parts["loss"].to_list() == pytest.approx(whole["loss"].to_list(), rel=1e-6)

    def test_batches_and_the_clock_are_those_of_the_plan(self) -> None:
        problem = replace(problem_of(even()), accumulate=4)
        method = METHODS["all-reduce"]
        plan = method.plan(problem)
        batches = Batches.of(method, plan, problem)
        assert batches == Batches((0, 1, 2), (16, 16, 16), 4)
        assert batches.samples == plan.cost.samples == 4 * 48
        assert str(batches).endswith("4 a step")
        clock = Clock.of(problem, plan)
        single = Clock.of(problem_of(even()), method.plan(problem_of(even())))
        assert clock.iteration_bytes == pytest.approx(single.iteration_bytes)
        assert clock.iteration_s < 4 * single.iteration_s


def test_the_text_says_how_many_samples_an_update_takes() -> None:
    found = compared(accumulating(4, even()), [METHODS["all-reduce"], METHODS["one node"]])
    lines = [line for line in shown(found, "title") if isinstance(line, str)]
    assert lines[0].splitlines() == [
        "An update every 32 samples: one node.",
        "An update every 96 samples: all-reduce.",
    ]
    assert "an update every 96 samples" in found.explain("all-reduce")


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_a_pipeline_accumulates_micro_batches_of_all_batches(schedule: str) -> None:
    cluster = full_mesh(WORKERS, Link(1e7))
    both = [
        METHODS[f"pipeline, {schedule}"].plan(accumulating(count, cluster, size)).cost
        for count, size in ((2, 4), (1, 8))
    ]
    assert both[0].samples == both[1].samples == 8
    assert both[0].iteration_s == pytest.approx(both[1].iteration_s)
    assert both[0].link_bytes == pytest.approx(both[1].link_bytes)


def test_more_batches_than_can_be_simulated_are_refused() -> None:
    with pytest.raises(UserError, match="must be from 1 to 10000"):
        compare("lenet5", full_mesh([Node("a"), Node("b")], Link(1e8)), accumulate=10**30)
