"""Pipelines in a comparison: who wins where, what is refused, what is assumed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.comparison.test_learning import task
from tests.comparison.test_memory import of
from workbench.clusters import Cluster, Link, Node, full_mesh, star
from workbench.comparison import METHODS, Problem, UnusableError, compare
from workbench.comparison.learning.systems import train
from workbench.comparison.learning.trial import Trial
from workbench.comparison.methods import Plan
from workbench.comparison.methods.pipedream import STALE, unflushed
from workbench.pipelines import stage_memory
from workbench.profiles import profile_model

NAMES = ["pipeline, gpipe", "pipeline, 1f1b", "pipeline, pipedream"]
FLUSHED = NAMES[:2]


def pcs(count: int = 2, flops_per_s: float = 9e12, bps: float = 940e6, **about: float) -> Cluster:
    nodes = [Node(f"pc{at}", flops_per_s=flops_per_s, **about) for at in range(count)]  # type: ignore[arg-type]
    return full_mesh(nodes, Link(bps))


def problem_of(model: str, cluster: Cluster, batch_size: int = 32) -> Problem:
    return Problem(profile_model(model), cluster, batch_size)


@pytest.mark.parametrize("name", FLUSHED)
def test_equal_nodes_with_a_fast_link_share_a_model(name: str) -> None:
    problem = problem_of("resnet50", pcs(4, 1e12, 1e10))
    plan, one = (METHODS[each].plan(problem).cost for each in (name, "one node"))
    assert 2 < plan.samples_per_s / one.samples_per_s <= 4


@pytest.mark.parametrize("name", NAMES)
def test_steps_take_what_the_cost_model_says_where_nothing_is_shared(name: str) -> None:
    problem = problem_of("lenet5", pcs(2, 1e9, 1e8), 8)
    plan = METHODS[name].plan(problem)
    assert plan.predicted_s is not None
    assert plan.cost.iteration_s == pytest.approx(plan.predicted_s, rel=1e-6)


@pytest.mark.parametrize("name", FLUSHED)
@pytest.mark.parametrize("model", ["resnet18", "vgg16"])
def test_samples_on_their_way_are_predicted_and_planned_for(name: str, model: str) -> None:
    """Half of the samples cross a link that also carries gradients: 845 samples/s without them."""
    problem = problem_of(model, pcs(2))
    plan = METHODS[name].plan(problem)
    assert plan.predicted_s is not None
    assert plan.cost.iteration_s == pytest.approx(plan.predicted_s, rel=1e-6)
    link_s = 8 * problem.sample_bytes * problem.step_samples / 2 / 940e6
    assert plan.predicted_s > link_s


@pytest.mark.parametrize("name", FLUSHED)
def test_overheads_of_layers_are_charged_by_micro_batch(name: str) -> None:
    nodes = [replace(node, overhead_s=3e-4, bytes_per_s=1e10) for node in pcs(2, 1e12).nodes]
    problem = problem_of("lenet5", full_mesh(nodes, Link(1e9)), 32)
    plan = METHODS[name].plan(problem)
    assert plan.predicted_s is not None
    assert plan.cost.iteration_s == pytest.approx(plan.predicted_s, rel=1e-6)
    busy_s = sum(plan.cost.busy_s.values())
    assert problem.batch_s(0) <= busy_s * (1 + 1e-9)
    assert busy_s < 4 * problem.batch_s(0)


@pytest.mark.parametrize("name", NAMES)
def test_a_fast_node_with_slow_links_needs_no_pipeline(name: str) -> None:
    nodes = [Node("fast", flops_per_s=1e13), Node("slow", flops_per_s=1e9)]
    problem = problem_of("resnet18", full_mesh(nodes, Link(1e6)))
    plan, one = (METHODS[each].plan(problem).cost for each in (name, "one node"))
    assert plan.samples_per_s < 0.5 * one.samples_per_s


@pytest.mark.parametrize("name", FLUSHED)
def test_a_tied_weight_costs_its_way_or_stays_on_a_node(name: str) -> None:
    problem = problem_of("gpt2", pcs(), 8)
    plan = METHODS[name].plan(problem)
    apart = replace(problem, profile=replace(problem.profile, tied=()))
    assert "154 MB" in "; ".join(plan.assumes)
    assert METHODS[name].plan(apart).cost.iteration_s < plan.cost.iteration_s


def test_a_model_that_fits_on_no_node_fits_in_a_pipeline() -> None:
    memory = of("vgg16")
    cluster = pcs(4, 1e12, 1e9, memory_bytes=0.75 * memory(8))
    problem = Problem(profile_model("vgg16"), cluster, 8, memory=memory)
    one, plan = (METHODS[each].plan(problem) for each in ("one node", "pipeline, 1f1b"))
    assert not problem.fits(0, 8)
    assert one.batches == {0: 8}
    assert plan.memory
    assert all(need.fits for need in plan.memory.values())


def test_memory_of_a_stage_is_what_its_passes_allocate() -> None:
    """Four nodes that each hold no more than GPT-2's last layer and one sample."""
    memory, stages = of("gpt2"), stage_memory("gpt2")
    assert stages is not None
    least = stages(49, 49, 1, 1, recompute=False)
    profile = profile_model("gpt2")

    def plan_with(memory_bytes: float) -> Plan:
        cluster = pcs(4, memory_bytes=memory_bytes)
        return METHODS["pipeline, 1f1b"].plan(Problem(profile, cluster, 8, memory=memory))

    enough, less = plan_with(1.02 * least), plan_with(0.98 * least)
    assert enough.memory
    assert less.memory
    assert all(need.fits for need in enough.memory.values())
    assert not all(need.fits for need in less.memory.values())
    assert "layer by layer" in "; ".join(enough.assumes)
    assert "estimated" not in "; ".join(enough.assumes)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reason", ["second node", "one layer"])
def test_one_node_or_one_layer_is_refused(name: str, reason: str) -> None:
    module = torch.nn.Linear(8, 2)
    profile = profile_model(module, (8,)) if reason == "one layer" else profile_model("lenet5")
    cluster = pcs(2 if reason == "one layer" else 1)
    with pytest.raises(UnusableError, match=reason):
        METHODS[name].plan(Problem(profile, cluster))


def test_pipedream_parts_no_tied_weight() -> None:
    with pytest.raises(UnusableError, match="layers 1 and 49 share a weight"):
        METHODS[NAMES[2]].plan(problem_of("gpt2", pcs()))


def test_samples_reach_the_first_stage_from_their_owners() -> None:
    owners = [Node(f"phone{at}", flops_per_s=1e6, samples=100) for at in range(3)]
    servers = [Node(name, flops_per_s=1e10) for name in ("edge", "cloud")]
    problem = problem_of("lenet5", star(owners, servers, Link(1e8)), 12)
    plan = METHODS["pipeline, 1f1b"].plan(problem)
    assert problem.share(plan.learns_from) == 1
    for owner in range(3):
        sent = sum(size for (a, _), size in plan.cost.link_bytes.items() if a == owner)
        assert sent == pytest.approx(4 * problem.sample_bytes, rel=0.01)
    assert plan.cost.samples == 12


def test_adapters_need_no_gradient_below_the_first() -> None:
    module = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6)))
    for number in range(4):
        module[number].requires_grad_(False)
    profile = profile_model(module, (64,))
    cluster = pcs(2, 1e6, 1e9)
    plan = METHODS["pipeline, 1f1b"].plan(Problem(profile, cluster, 32))
    samples_bytes = activation_bytes = 32 * 64 * 4
    assert plan.where.startswith("layers 1-4 on ")
    sent = sum(plan.cost.link_bytes.values())
    assert sent == pytest.approx(samples_bytes / 2 + activation_bytes)


def test_pipedream_learns_with_stale_weights() -> None:
    owners = [Node(f"n{at}", flops_per_s=1e7, samples=10) for at in range(3)]
    learning = task(full_mesh(owners, Link(1e9)), epochs=20)
    method = METHODS["pipeline, pipedream"]
    plan = method.plan(learning.problem)
    curve = train(Trial(learning, method, plan, 1))
    assert method.update == STALE
    assert curve["samples"].to_list() == list(range(0, 21 * 128, 128))
    assert curve["loss"][-1] < curve["loss"][0]
    steps = 20 * 128 / learning.problem.batch_size
    assert curve["at_s"][-1] == pytest.approx(steps * plan.cost.iteration_s, rel=0.2)
    assert unflushed(learning.problem)[0].memory == {}


def test_pipedream_learns_where_an_owner_of_samples_has_no_stage() -> None:
    nodes = [Node(f"n{at}", flops_per_s=flops, samples=10) for at, flops in enumerate([1e5, 1e9])]
    nodes.append(Node("n2", flops_per_s=1e9))
    learning = task(full_mesh(nodes, Link(1e9)), epochs=1)
    method = METHODS["pipeline, pipedream"]
    plan = method.plan(learning.problem)
    assert "n0" not in plan.where
    assert train(Trial(learning, method, plan, 1))["samples"][-1] == learning.samples


def test_a_pipeline_is_the_answer_for_many_weights_and_slow_links() -> None:
    found = compare("vgg16", pcs(2, 1e12, 3e8), 32)
    assert found.system == "pipeline"
    assert compare("gpt2", pcs(2, 9e12, 1e6), 8).system == "one node"
