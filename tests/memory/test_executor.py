"""Operators on registers give what they give in the module, however results lie in memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.memory.tracing.modules import Calling
from workbench import memory
from workbench.memory.executor import call_of, writing_form
from workbench.profiles.graph import Operand, Operator, View

aten = torch.ops.aten


@pytest.mark.parametrize("function", [aten.add.Tensor, aten.mm.default, aten.relu.default])
def test_operators_of_one_result_write_it_where_they_are_told(function: Any) -> None:
    form = writing_form(function)
    assert form is not None
    x = torch.randn(3, 3)
    given = (x,) if function is aten.relu.default else (x, x)
    place = torch.empty(3, 3)
    form[0](*given, **{form[1]: place})
    assert torch.equal(place, function(*given))


@pytest.mark.parametrize("function", [aten.convolution.default, aten.native_batch_norm.default])
def test_operators_without_a_kernel_that_writes_one_result_have_no_such_form(
    function: Any,
) -> None:
    assert writing_form(function) is None


def sliced(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, value: int) -> View:
    return View(value, offset, shape, strides, 4 * torch.Size(shape).numel(), "float32")


def test_results_are_alike_in_new_memory_in_a_place_and_over_an_operand() -> None:
    left, right = sliced((2, 3), (6, 2), 1, 0), sliced((2, 3), (3, 1), 0, 1)
    made = sliced((2, 3), (3, 1), 0, 2)
    arguments: Any = ((Operand(0), Operand(1)), {})
    operator = Operator("mul", (left, right), (made,), (made,), aten.mul.Tensor, arguments)
    bases = {0: sliced((12,), (1,), 0, 0), 1: right, 2: made}
    x, y = torch.arange(12.0), torch.randn(2, 3)
    wanted, place = x[1:].as_strided((2, 3), (6, 2), 1) * y, torch.zeros(2, 3)
    for call in (
        call_of(operator, bases),
        call_of(operator, bases, places={0: place}),
        call_of(operator, bases, 1),
    ):
        registers = {0: x, 1: y.clone()}
        call(registers)
        assert torch.equal(registers[2], wanted)
    assert torch.equal(place, wanted)
    assert torch.equal(registers[1], wanted)  # the last call wrote there


def strided(m: Any, x: Tensor) -> Tensor:
    """Writes a part of a tensor, counted from where its memory begins."""
    x = torch.tanh(m.layer(x)) * 1.5
    x.as_strided((4,), (9,), 5).mul_(3)
    return torch.sin(x)


def test_strides_count_from_the_beginning_of_the_memory() -> None:
    torch.manual_seed(0)
    module, x = Calling(strided, layer=nn.Linear(8, 8)), torch.randn(8, 8)
    (result,) = memory.run(memory.trace(module, (8,), 8), x)
    assert torch.equal(result, module(x))
    parameters = list(module.parameters())
    wanted = torch.autograd.grad(module(x).sum(), parameters)
    fitted = memory.fit(module, x, "100%", loss=torch.sum)
    gradients = torch.autograd.grad(fitted(x).sum(), parameters)
    assert all(map(torch.equal, gradients, wanted))


def test_a_model_by_name_has_the_same_weights_in_each_run() -> None:
    x = torch.ones(1, 1, 28, 28)
    (once,), (again,) = (memory.run(memory.trace("lenet5"), x) for _ in range(2))
    assert torch.equal(once, again)


GRAPH: Any = memory.trace("lenet5")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: memory.run("lenet5", torch.zeros(1)), "graph is 'lenet5'; give one that was"),  # type: ignore[arg-type]
        (lambda: memory.run(GRAPH, 3), "inputs"),  # type: ignore[arg-type]
        (lambda: memory.run(GRAPH, [1, 2]), "an input is 1; give a tensor"),  # type: ignore[list-item]
        (
            lambda: memory.run(GRAPH, torch.zeros(1, 1, 28, 28), 3),  # type: ignore[arg-type]
            "module is 3; give a module of PyTorch",
        ),
        (lambda: memory.dataflow(3), "graph is 3; give one that was traced"),  # type: ignore[arg-type]
        (lambda: memory.dataflow(GRAPH, 0), "alignment is 0; it must be a whole number"),
        (lambda: memory.needs(3), "plan is 3; give one of plan_memory"),  # type: ignore[arg-type]
        (
            lambda: memory.needs(memory.plan_memory(GRAPH), "sgd", -1),
            "workspace_bytes is -1; it must be a whole number of at least 0",
        ),
        (lambda: memory.trace("lenet5", training="yes"), "training is 'yes'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()
