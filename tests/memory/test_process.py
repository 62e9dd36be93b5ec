"""What a process needs, against what PyTorch's allocator counts while it runs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.long import usually
from tests.memory.tracing.modules import Calling
from workbench.memory import trace
from workbench.memory.arena import Arena
from workbench.memory.dataflow import ALIGNMENT, dataflow
from workbench.memory.fitting.profile import workspace_bytes
from workbench.memory.measured import allocations
from workbench.memory.optimiser import optimise
from workbench.memory.planning import plan_memory
from workbench.memory.process import OPTIMIZERS, beside_bytes, needs
from workbench.memory.report import survey, total
from workbench.profiles.graph import OperatorGraph
from workbench.utils.checks import UnknownNameError
from workbench.zoo import build

FEW = 256 * 1024
"""Bytes that a bound of what kernels allocate may be too large by, and a small part of it."""


@cache
def graph(model: str, batch_size: int, training: bool) -> OperatorGraph:
    return optimise(trace(model, batch_size=batch_size, training=training)).graph


def peak_bytes(graph: OperatorGraph, model: str | Callable[[], nn.Module], plan: object) -> int:
    """Most that is allocated from before the module is there until a run in its arena ends."""
    gc.collect()
    kept: list[object] = []

    def run() -> None:
        module = build(model) if isinstance(model, str) else model()
        inputs = [torch.zeros(one.shape, dtype=getattr(torch, one.dtype)) for one in graph.inputs]
        arena = Arena(plan, module)  # type: ignore[arg-type]
        kept.append((module, arena.run(inputs)))

    (peak,) = allocations([run])
    kept.clear()
    return peak


@pytest.mark.parametrize(
    ("model", "batch_size", "training", "share"),
    [
        ("lenet5", 32, True, None),
        ("lenet5", 32, False, None),
        ("resnet20_cifar", 16, True, None),
        ("resnet20_cifar", 16, True, 0.5),
        pytest.param("resnet20_cifar", 1, True, None, marks=pytest.mark.long),
        ("resnet20_cifar", 8, False, None),
        ("mobilenet_v2_cifar", 8, False, None),
        pytest.param("squeezenet_cifar", 4, True, None, marks=pytest.mark.long),
        ("squeezenet_cifar", 4, False, None),
        pytest.param("mobilenet_v2_cifar", 4, True, None, marks=pytest.mark.long),
        pytest.param("mobilenet_v2_cifar", 4, True, 0.8, marks=pytest.mark.long),
    ],
)
def test_a_process_takes_what_its_plan_needs(
    model: str, batch_size: int, training: bool, share: float | None
) -> None:
    one = graph(model, batch_size, training)
    flow, workspace = dataflow(one), workspace_bytes(one)
    plan = plan_memory(flow, "greedy_by_size")
    if share is not None:
        budget = int(share * needs(plan, workspace_bytes=workspace).total)
        room = budget - beside_bytes(flow, workspace_bytes=workspace)
        plan = plan_memory(flow, "greedy_by_size", room)
        assert needs(plan, workspace_bytes=workspace).total <= budget
    peak, most = peak_bytes(one, model, plan), needs(plan, workspace_bytes=workspace).total
    assert peak <= most
    assert most - peak <= FEW + 0.01 * most


def two() -> Calling:
    """Two parameters whose gradients are one; one that is not used, and a constant."""
    layers = {"a": nn.Linear(64, 500), "b": nn.Linear(64, 500), "unused": nn.Linear(99, 99)}
    module = Calling(lambda m, x: torch.relu(m.a(x) + m.b(x)) @ m.k, **layers)
    module.register_buffer("k", torch.zeros(500, 500))
    return module


def dropped(m: Any, x: Tensor) -> Tensor:
    x = nn.functional.dropout(m.norm(torch.relu(m.a(x))), 0.5, m.training)
    summed: Tensor = m.f(x.transpose(1, 2)).sum(1)
    return summed


MAKERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "two": (two, (64,)),
    "normalised": (
        lambda: Calling(dropped, a=nn.Linear(300, 700), f=nn.Linear(6, 4), norm=nn.LayerNorm(700)),
        (6, 300),
    ),
    "attending": (
        lambda: Calling(
            lambda m, x: m.f(m.a(x, x, x, need_weights=False)[0].mean(1)),
            a=nn.MultiheadAttention(64, 4, batch_first=True),
            f=nn.Linear(64, 10),
        ),
        (32, 64),
    ),
    "recurrent": (
        lambda: Calling(
            lambda m, x: m.f(m.a(x)[0][:, -1]),
            a=nn.LSTM(300, 16, batch_first=True),
            f=nn.Linear(16, 10),
        ),
        (5, 300),
    ),
    "enlarging": (
        lambda: Calling(
            lambda m, x: m.f(nn.functional.leaky_relu(m.a(x))).mean((2, 3)),
            a=nn.ConvTranspose2d(4, 8, 2, stride=2),
            f=nn.Conv2d(8, 3, 3),
        ),
        (4, 17, 17),
    ),
}


@pytest.mark.parametrize("training", usually([True], [False, True]))
@pytest.mark.parametrize("kind", MAKERS)
def test_modules_of_other_kinds_take_no_more(kind: str, training: bool) -> None:
    make, shape = MAKERS[kind]
    optimised = optimise(trace(make(), shape, 16, training)).graph
    plan = plan_memory(optimised, "greedy_by_size")
    most = needs(plan, workspace_bytes=workspace_bytes(optimised)).total
    peak = peak_bytes(optimised, make, plan)
    assert 0.8 * most <= peak <= most


def test_state_is_of_each_parameter_that_is_trained() -> None:
    module: Any = two()
    trained = sum(one.nbytes for name, one in module.named_parameters() if "unused" not in name)
    for one in (trace(module, (64,), 1, True), optimise(trace(module, (64,), 1, True)).graph):
        state = needs(plan_memory(one), "momentum").optimizer_state
        assert state - trained in (0, sum(part.nbytes for part in module.unused.parameters()))


PYTORCHS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_takes_no_more_than_is_counted(name: str) -> None:
    for sizes in ((64, 64), (64, 48, 3), (3, 64, 48)):
        parameters = [nn.Parameter(torch.randn(size, 64)) for size in sizes]
        optimizer = PYTORCHS[name](parameters, 0.1)
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
        (taken,) = allocations([optimizer.step])
        counted = OPTIMIZERS[name].workspace_bytes([one.nbytes for one in parameters])
        assert taken <= counted + 64


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_holds_what_is_counted(name: str) -> None:
    plan = plan_memory(graph("lenet5", 8, True))
    plain, ours = needs(plan), needs(plan, name)
    parameters = list(build("lenet5").parameters())
    for one in parameters:
        one.grad = torch.ones_like(one)
    made = PYTORCHS[name](parameters, 0.1)
    made.step()
    held = [one for state in made.state.values() for one in state.values()]
    state = sum(one.nbytes for one in held if torch.is_tensor(one) and one.dim())
    rounding = ALIGNMENT * len(parameters) * max(OPTIMIZERS[name].state, 1)
    assert state <= ours.optimizer_state <= state + rounding
    assert ours.total - plain.total == ours.optimizer_state + ours.workspace - plain.workspace


def test_the_last_line_is_the_default_planners_rounded_up() -> None:
    found = survey("lenet5", batch_size=8, training=True, optimizer="adam")
    needed = needs(found.plans["workbench"], "adam", found.workspace_bytes).total
    text = total(found)
    assert text.startswith("needs ")
    above = float(text.split()[1].replace(",", "")) * 1e6 - needed
    assert 0 <= above < 10_000  # a unit of the third digit
    with pytest.raises(UnknownNameError, match="sgd, momentum, adam, adamw"):
        survey("lenet5", optimizer="lion")
