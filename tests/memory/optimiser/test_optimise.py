"""Each pattern, alone and all together, leaves what a graph gives as it was, to rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.long import usually
from tests.memory.tracing.modules import Calling
from tests.memory.tracing.test_functional import FEW, SMALL, awkward, of_zoo
from workbench.memory import trace
from workbench.memory.executor import run
from workbench.memory.optimiser import PATTERNS, optimise
from workbench.profiles.graph import OperatorGraph
from workbench.utils.checks import UnknownNameError
from workbench.zoo import MODELS


def same(one: OperatorGraph, other: OperatorGraph, given: tuple[Tensor, ...]) -> None:
    torch.manual_seed(1)
    wanted = run(one, given)
    torch.manual_seed(1)
    for found, value in zip(run(other, given), wanted, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", usually(FEW, SMALL))
def test_optimised_models_of_the_zoo_give_the_same(name: str, training: bool) -> None:
    module, x, y = of_zoo(name)
    graph = trace(module, MODELS[name].input_shape, 2, training)
    found = optimise(graph)
    same(graph, found.graph, (x, y) if training else (x,))
    nodes = found.table["nodes"]
    assert nodes[-1] == len(found.graph.nodes) < nodes[0] == len(graph.nodes)
    assert len(optimise(found.graph).table) == 1  # nothing is left to be found


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_pattern_alone_on_what_is_awkward(pattern: str, training: bool) -> None:
    module, given = awkward()
    graph = trace(module, [(4,), (1,)], 3, training)
    more = (torch.zeros(3, dtype=torch.int64),) if training else ()
    same(graph, optimise(graph, [pattern]).graph, (*given, *more))


def wasteful(m: Any, x: Tensor) -> Any:
    """All that patterns look for, once."""
    _ = x.sin()
    y = torch.relu(m.norm(m.conv(x)) + x.expand(-1, 2, -1, -1).contiguous())
    y = (y * 1 + 0).transpose(2, 3).transpose(2, 3).reshape(y.shape)
    return y.exp() * m.gain.exp() + y.exp()


def graph_of_waste() -> OperatorGraph:
    gain = nn.Parameter(torch.full((2, 1, 1), 0.5))
    conv, norm = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2)
    return trace(Calling(wasteful, conv=conv, norm=norm, gain=gain), (1, 4, 4), 2)


@pytest.mark.parametrize(
    ("pattern", "operators"),
    [
        ("neutral", 2),
        ("common subexpressions", 1),
        ("dead code", 2),
        ("normalisation into convolution", 1),
        ("constant folding", 1),
        ("addition and ReLU into convolution", 0),
    ],
)
def test_each_pattern_removes_its_operators(pattern: str, operators: int) -> None:
    graph = graph_of_waste()
    found = optimise(graph, [pattern]).graph
    same(graph, found, (torch.randn(2, 1, 4, 4),))
    assert len(graph.operators) - len(found.operators) >= operators


def test_all_together_leave_four_operators() -> None:
    """A convolution that adds and clips, the exponential, and its product and sum."""
    graph = optimise(graph_of_waste()).graph
    names = [one.name for one in graph.operators]
    assert "convolution+add+relu" in names
    assert names.count("exp") == 1
    assert len([one.name for one in graph.preparation]) == 3  # weight, bias, gain


def test_what_is_added_to_its_own_convolution_is_not_overwritten() -> None:
    conv = nn.Conv2d(2, 2, 3, padding=1)
    residual = Calling(lambda m, x: m.conv(y := x.exp()) + y, conv=conv)
    graph = optimise(trace(residual, (2, 4, 4))).graph
    assert [one.name for one in graph.operators] == ["exp", "convolution+add"]
    assert graph.operators[1].may_overwrite == frozenset()


def test_unknown_patterns_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="pattern"):
        optimise(trace("lenet5"), ["faster"])


def test_anything_but_a_graph_is_refused() -> None:
    with pytest.raises(TypeError, match="graph is 'lenet5'; give one that was traced"):
        optimise("lenet5")  # type: ignore[arg-type]
