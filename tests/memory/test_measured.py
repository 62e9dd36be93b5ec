"""Memory as it is: the arena holds what the plan says, and PyTorch what its allocator says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from workbench.memory import trace
from workbench.memory.dataflow import dataflow
from workbench.memory.lifetimes import lifetimes
from workbench.memory.measured import allocations, measure_memory


def perceptron() -> torch.nn.Module:
    layers = [torch.nn.Linear(64, 64), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, *layers, torch.nn.Linear(64, 4))


def test_the_allocator_is_read() -> None:
    kept: list[torch.Tensor] = []
    runs: dict[Callable[[], object], int] = {
        lambda: torch.empty(1000): 4000,
        lambda: [torch.empty(1000) for _ in range(3)]: 12000,
        lambda: kept.append(torch.empty(10)): 40,
        lambda: None: 0,
    }
    assert allocations(runs) == list(runs.values())


@pytest.mark.parametrize("training", [False, True])
def test_a_perceptron_holds_what_is_planned(training: bool) -> None:
    module, batch = perceptron(), 256
    before = [one.clone() for one in module.parameters()]
    graph = trace(module, (64,), batch, training)
    given = (torch.randn(batch, 64), torch.zeros(batch, dtype=torch.int64))
    found = measure_memory(graph, given if training else given[0], repeats=3)
    assert found.plan.total_bytes <= found.arena_bytes <= found.plan.total_bytes + 64
    flow = dataflow(graph, alignment=1)
    order = range(len(flow.steps))
    assert found.plain_bytes == pytest.approx(
        lifetimes(flow, order, overwriting=False).bound_bytes, rel=0.15
    )
    assert found.beside_bytes <= flow.sizes.max() + 1024  # an operator's results, until copied
    assert found.plan.total_bytes <= found.plain_bytes
    assert len(found.arena_s) == len(found.plain_s) == 3
    assert min(*found.arena_s, *found.plain_s, found.build_s) > 0
    for one, other in zip(module.parameters(), before, strict=True):
        assert torch.equal(one, other)
        assert one.grad is None


def test_a_loss_of_ones_own_with_targets() -> None:
    def loss(scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return (scores - wanted).square().mean()

    graph = trace("lenet5", batch_size=4, training=True, loss=loss, target_shape=(10,))
    given = (torch.randn(4, 1, 28, 28), torch.randn(4, 10))
    assert measure_memory(graph, given, loss=loss, repeats=1).plan.total_bytes


def test_other_inputs_and_no_repeats_are_refused() -> None:
    graph = trace("lenet5")
    with pytest.raises(ValueError, match="was traced for inputs"):
        measure_memory(graph, torch.zeros(2, 1, 28, 28))
    with pytest.raises(ValueError, match="repeats is 0"):
        measure_memory(graph, torch.zeros(1, 1, 28, 28), repeats=0)
