"""Graphs in one block of memory give what they give without, bit for bit, whatever the plan."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, nn

from tests.long import usually
from tests.memory.tracing.modules import COMPLEX, NAMES, Calling, complex_module, made
from tests.memory.tracing.test_functional import SMALL, of_zoo
from workbench.memory import trace
from workbench.memory.arena import Arena
from workbench.memory.executor import run
from workbench.memory.optimiser import optimise
from workbench.memory.orders import ORDERS
from workbench.memory.planning import PLANNERS, plan_memory
from workbench.memory.recomputation import BudgetError
from workbench.profiles.graph import OperatorGraph
from workbench.zoo import MODELS


def check(
    graph: OperatorGraph, arena: Arena, given: tuple[Tensor, ...], *, rounded: bool = False
) -> None:
    """Run twice; a convolution that adds may be another of oneDNN's, which rounds otherwise."""
    for seed in (1, 2):
        torch.manual_seed(seed)
        wanted = run(graph, given)
        torch.manual_seed(seed)
        for one, other in zip(arena.run(given), wanted, strict=True):
            if rounded:
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
            else:
                assert torch.equal(one, other)
        arena = Arena(arena.plan)


@cache
def traced(name: str, training: bool) -> OperatorGraph:
    return trace(made(name), (4,), 4, training)


@cache
def traced_of_zoo(name: str, training: bool) -> tuple[OperatorGraph, Tensor, Tensor]:
    module, x, y = of_zoo(name)
    return trace(module, MODELS[name].input_shape, 2, training), x, y


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("planner", PLANNERS)
def test_arenas_of_every_planner_give_the_same(planner: str, training: bool) -> None:
    graph, x, y = traced_of_zoo("resnet20_cifar", training)
    arena = Arena(plan_memory(graph, planner, rounds=0))
    assert arena.block.numel() <= arena.plan.total_bytes + 64
    check(graph, arena, (x, y) if training else (x,))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_what_order_views_and_writes_matter_to(name: str, training: bool) -> None:
    x, y = torch.randn(4, 4), torch.tensor([0, 1, 2, 3])
    plain = traced(name, training)
    for graph in (plain, optimise(plain).graph):
        for order in ORDERS:
            plan = plan_memory(graph, order=order, rounds=0)
            check(graph, Arena(plan), (x, y) if training else (x,))


@pytest.mark.parametrize("name", COMPLEX)
def test_arenas_of_complex_numbers_give_the_same(name: str) -> None:
    module, x = complex_module(name)
    graph = optimise(trace(module, (8,), 4, training=True)).graph
    check(graph, Arena(plan_memory(graph, rounds=0)), (x, torch.tensor([0, 1, 2, 0])))


def test_a_parameter_that_is_returned_is_not_updated_in_its_place() -> None:
    alone = Calling(lambda m, x: m.number * 1, number=nn.Parameter(torch.tensor(2.0)))
    graph = optimise(trace(alone, (1,), training=True, loss=lambda out: out + 0)).graph
    check(graph, Arena(plan_memory(graph)), (torch.zeros(1, 1),))


@pytest.mark.parametrize("name", NAMES)
def test_arenas_that_run_steps_again_give_the_same(name: str) -> None:
    x, y = torch.randn(4, 4), torch.tensor([0, 1, 2, 3])
    graph = traced(name, training=True)
    whole = plan_memory(graph, rounds=0).total_bytes
    for budget in range(whole // 2, whole, whole // 10):
        try:
            plan = plan_memory(graph, budget=budget, rounds=0)
        except BudgetError:
            continue
        check(graph, Arena(plan), (x, y))


@pytest.mark.parametrize("name", usually(("lenet5", "resnet20_cifar"), SMALL))
def test_training_in_half_of_the_memory(name: str) -> None:
    module, x, y = of_zoo(name, 8)
    graph = trace(module, MODELS[name].input_shape, 8, training=True)
    whole = plan_memory(graph, rounds=0)
    try:
        plan = plan_memory(graph, budget=whole.total_bytes // 2, rounds=0)
    except ValueError:
        assert name in ("lenet5", "cifarnet")  # one layer's weights are most of it
        return
    assert plan.recomputed
    check(graph, Arena(plan), (x, y))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", usually(("lenet5", "resnet20_cifar"), SMALL))
def test_arenas_of_optimised_graphs_give_the_same(name: str, training: bool) -> None:
    plain, x, y = traced_of_zoo(name, training)
    graph = optimise(plain).graph
    arena = Arena(plan_memory(graph, rounds=0))
    check(graph, arena, (x, y) if training else (x,), rounded=True)


def test_other_inputs_are_refused() -> None:
    arena = Arena(plan_memory(trace("lenet5")))
    with pytest.raises(ValueError, match="was traced for inputs"):
        arena.run(torch.zeros(2, 1, 28, 28))


def test_numbers_between_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no multiple of 4: plan .* another alignment"):
        Arena(plan_memory(trace("lenet5", batch_size=2, training=True), alignment=3))
