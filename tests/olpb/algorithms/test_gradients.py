"""Gradients by a scan are those of autograd, for chains and for other graphs."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.long import usually
from tests.memory.tracing.modules import Calling
from tests.olpb.algorithms.networks import KINDS, NETWORKS, Drawn, example
from tests.oracles import olpb_scan as oracle
from workbench.olpb.algorithms import jacobians
from workbench.olpb.algorithms.gradients import ScanGradients, scan_gradients
from workbench.olpb.algorithms.jacobians import group_passes
from workbench.olpb.algorithms.levels import groups
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.tape import record
from workbench.zoo import build

WAYS: tuple[dict[str, Any], ...] = (
    {"levels": 1},
    {"levels": 3, "scan": "blelloch", "nodes": 3},
    {"unit": "matrix_layer", "levels": 1, "scan": "blelloch"},
    {"levels": 100, "nodes": 1},
)
CASES = [(name, options) for name in NETWORKS for options in WAYS]
USUAL = [
    (name, options)
    for name, options in CASES
    if options == WAYS[0] or name in ("residual", "tied", "lstm")
]


def check(module: nn.Module, x: Any, y: Tensor, **options: Any) -> ScanGradients:
    """Equal to 1e-12 of the largest, in the same names."""
    torch.manual_seed(9)
    found = scan_gradients(module, x, y, **options)
    torch.manual_seed(9)
    wanted, loss = oracle.autograd_gradients(module, x, y, options.get("loss"))
    assert found.gradients.keys() == wanted.keys()
    largest = max(1.0, *(float(one.abs().max()) for one in wanted.values()))
    for name, one in wanted.items():
        torch.testing.assert_close(found.gradients[name], one, rtol=0, atol=1e-12 * largest)
    assert found.loss == pytest.approx(loss, rel=1e-12)
    return found


@pytest.mark.parametrize("case", usually(USUAL, CASES), ids=str)
def test_networks(case: tuple[str, dict[str, Any]]) -> None:
    name, options = case
    check(*example(name), **options)


@pytest.mark.parametrize("name", ["residual", "lstm", "deciding"])
def test_a_graph_serves_again_for_other_numbers(name: str) -> None:
    module, x, y = example(name)
    first = record(module, x, y)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.1)
    torch.manual_seed(9)
    again = record(module, x * 1.05, y, like=first)
    torch.manual_seed(9)
    fresh = record(module, x * 1.05, y)
    assert (again.graph is first.graph) == (fresh.flow == first.flow)
    assert again.loss == pytest.approx(fresh.loss, rel=1e-12)
    assert again.flow == fresh.flow
    assert record(module, x[:1], y[:1], like=first).graph is not first.graph


nodes = st.tuples(st.sampled_from(KINDS), st.integers(0, 8), st.integers(0, 8))


@given(
    st.lists(nodes, min_size=2, max_size=8),
    st.sampled_from(["operator", "matrix_layer"]),
    st.integers(1, 4),
    st.sampled_from(["hillis_steele", "blelloch"]),
    st.none() | st.integers(1, 9),
)
@settings(max_examples=25)
def test_drawn_graphs(
    drawn: list[tuple[str, int, int]], unit: str, levels: int, scan: str, nodes: int | None
) -> None:
    torch.manual_seed(1)
    module, x = Drawn(drawn), torch.randn(2, 4)
    check(module, x, torch.tensor([1, 3]), unit=unit, levels=levels, scan=scan, nodes=nodes)


def test_lenet5() -> None:
    torch.manual_seed(2)
    check(build("lenet5", "cpu"), torch.randn(1, 1, 28, 28), torch.tensor([3]), levels=2)


sizes = st.tuples(st.sampled_from([nn.Tanh, nn.ReLU, nn.Softplus, None]), st.integers(1, 5))


@given(st.lists(sizes, min_size=1, max_size=5), st.booleans(), st.integers(1, 12), st.data())
@settings(max_examples=15, deadline=None)
def test_drawn_chains(
    layers: list[tuple[type[nn.Module] | None, int]], normed: bool, count: int, data: st.DataObject
) -> None:
    torch.manual_seed(1)
    parts: list[nn.Module] = []
    width = 3
    for activation, made in layers:
        parts.append(nn.Linear(width, made))
        parts += [nn.BatchNorm1d(made)] if normed else []
        parts += [activation()] if activation else []
        width = made
    operators = len(parts) + 1  # the loss is one
    scan = data.draw(st.sampled_from(sorted(SCANS)))
    levels = -(-operators // min(count, operators))  # of `count` groups, or as near as levels come
    x, y = torch.randn(4, 3), torch.randn(4, width)
    found = check(nn.Sequential(*parts), x, y, levels=levels, scan=scan)
    assert len(found.groups) == -(-operators // levels)


def test_a_loss_of_ones_own_several_inputs_and_numbers_to_find() -> None:
    module = nn.Bilinear(2, 3, 2)
    x, y = (torch.randn(4, 2), torch.randn(4, 3)), torch.randn(4, 2)

    def loss(found: Tensor, y: Tensor) -> Tensor:
        return (found - y).abs().logsumexp((0, 1))

    for ones_own in (None, loss):
        check(module, x, y, loss=ones_own)


def test_numbers_in_another_order_in_memory() -> None:
    module, x, y = example("inception")
    check(module, x.to(memory_format=torch.channels_last), y)
    check(module.to(memory_format=torch.channels_last), x, y)  # type: ignore[call-overload]


def test_tokens() -> None:
    module = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 3))
    check(module, torch.tensor([[1, 2], [2, 2]]), torch.tensor([0, 2]))


def test_inputs_by_name_are_those_in_order() -> None:
    module, y = nn.Bilinear(2, 3, 2), torch.randn(4, 2)
    one, other = torch.randn(4, 2), torch.randn(4, 3)
    named = scan_gradients(module, {"input2": other, "input1": one}, y)
    in_order = scan_gradients(module, (one, other), y)
    assert all(torch.equal(named.gradients[name], one) for name, one in in_order.gradients.items())


def test_what_it_takes() -> None:
    module, x, y = example("chain")
    alone, many = (scan_gradients(module, x, y, levels=1, nodes=nodes) for nodes in (1, None))
    operators = "convolution relu max_pool2d_with_indices addmm sigmoid addmm _log_softmax"
    wanted = [(name,) for name in f"{operators} nll_loss_forward".split()]
    assert [group.operators for group in many.groups] == wanted
    assert [one.boundary for one in many.groups] == [144, 144, 36, 10, 10, 8, 8, 1]
    # On one node it is back-propagation: a product of a matrix with a gradient for each group but
    # the first, whose inputs need none.
    assert alone.work == len(alone.groups) - 1
    assert alone.flops == alone.critical_flops == 2 * sum(one.nonzeros for one in alone.groups)
    assert alone.bytes_sent == 0
    assert many.steps < alone.steps
    assert many.work > alone.work
    assert many.flops > alone.flops
    assert many.bytes_sent > 0


def test_neither_the_module_nor_its_mode_changes() -> None:
    module, x, y = example("residual")
    before = copy.deepcopy(module.state_dict())
    scan_gradients(module, x, y)
    for name, one in module.state_dict().items():
        assert torch.equal(one, before[name])
    assert module.training
    assert all(one.grad is None for one in module.parameters())


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


def secretly(m: Any, x: Tensor) -> Any:
    found = m.f(x)
    with torch.no_grad():
        found.mul_(2)
    return found.tanh()


def test_gradients_that_operators_do_not_tell() -> None:
    x, y = torch.randn(2, 4), torch.tensor([0, 1])
    functions: dict[str, Any] = {
        "Calling has a gradient of its own, Reversal": lambda m, x: Reversal.apply(m.f(x)),  # type: ignore[no-untyped-call]
        "complex numbers": lambda m, x: torch.fft.fft(m.f(x)).real,
        "Calling has gradients that its operators do not tell: .* in place": secretly,
    }
    for message, function in functions.items():
        with pytest.raises(ValueError, match=message):
            scan_gradients(Calling(function, f=nn.Linear(4, 3)), x, y)


TWICE = Calling(lambda m, x: (m.f(x.flatten(1)),) * 2, f=nn.Linear(36, 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "layers"}, "unknown unit 'layers'. Did you mean 'matrix_layer'"),
        ({"scan": "steele"}, "unknown scan 'steele'"),
        ({"levels": 0}, "levels is 0"),
        ({"nodes": 0}, "nodes is 0"),
        ({"module": nn.ReLU()}, "ReLU has no parameters"),
        ({"y": [0, 1]}, r"y is \[0, 1\]; give a tensor"),
        ({"module": "chain"}, "module is 'chain'; give a module"),
        ({"x": torch.zeros(0, 1, 6, 6), "y": torch.zeros(0)}, r"y has shape \(0,\); give at least"),
        ({"y": torch.zeros(2, 3)}, r"y has shape \(2, 3\), but Sequential returns \(2, 4\)"),
        ({"x": torch.zeros(2, 1, 5, 9)}, "the input does not fit Sequential: at layer '4'"),
        ({"x": torch.full((2, 1, 6, 6), torch.nan)}, "the loss of Sequential is nan"),
        ({"loss": lambda found, y: found}, r"of shape \(2, 4\); it must be a single number"),
        ({"loss": lambda found, y: found.detach().sum()}, "depends on none of its parameters"),
        ({"module": TWICE}, "returns tuple, not a tensor: give loss="),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    module, x, y = example("chain")
    given = {"module": module, "x": x, "y": y, **changes}
    with pytest.raises((ValueError, TypeError), match=message):
        scan_gradients(**given)


def test_jacobians_that_take_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jacobians, "MOST_ENTRIES", 1000)
    with pytest.raises(ValueError, match=r"group \(relu\) is of 144 numbers by 144; at most 1,000"):
        scan_gradients(*example("chain"), levels=1)


@pytest.mark.parametrize("normalised", [False, True])
def test_jacobians_are_those_of_layers(normalised: bool) -> None:
    torch.manual_seed(3)
    first = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)] if normalised else [nn.Conv2d(1, 2, 3)]
    layers = [*first, nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)]
    module = nn.Sequential(*layers).double()
    x, y = torch.randn(3, 1, 6, 6).double(), torch.tensor([0, 1, 2])
    passes = group_passes(tape := record(module, x, y), groups(tape.flow))
    wanted, value = list[Tensor](), layers[0](x)
    for layer in layers[1:]:
        if not isinstance(layer, nn.Flatten):
            wanted.append(oracle.jacobian(layer, value))
        value = layer(value)
    wanted.append(oracle.jacobian(nn.LogSoftmax(1), value))
    found = [own.jacobian().toarray() for own in reversed(passes[1:-1])]
    for one, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, expected, rtol=0, atol=1e-12)


def test_jacobians_in_parts_are_those_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jacobians, "AT_ONCE", 1000)
    check(*example("residual"), levels=2)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.uint8])
def test_classes_of_any_whole_kind(dtype: torch.dtype) -> None:
    module, x, _ = example("chain")
    y = torch.tensor([0, 1])
    found, wanted = (scan_gradients(module, x, one) for one in (y.to(dtype), y))
    assert found.loss == wanted.loss
