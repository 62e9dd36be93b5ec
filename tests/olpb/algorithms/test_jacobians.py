"""Every Jacobian, by a closed form or by products, is the one that autograd finds row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.oracles import olpb_scan as oracle
from workbench.olpb.algorithms import jacobians
from workbench.olpb.algorithms.jacobians import by_products, transposed_jacobian
from workbench.olpb.algorithms.tape import Call, record

Function = Callable[..., Tensor]


class Holding(nn.Module):
    """Calls a function on tensors that are its parameters."""

    def __init__(self, function: Function, shapes: Sequence[Sequence[int]]) -> None:
        super().__init__()
        made = (torch.randn(tuple(shape), dtype=torch.float64) for shape in shapes)
        self.held = nn.ParameterList(list(made))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(*self.held)


def calls(function: Function, shapes: Sequence[Sequence[int]]) -> Sequence[Call]:
    torch.manual_seed(3)
    one = torch.zeros(1, dtype=torch.float64)
    found = record(Holding(function, shapes), one, one, lambda found, _: found.sin().sum())
    return found.calls[:-2]


def check(call: Call) -> None:
    for read in call.carrying:
        found = transposed_jacobian(call, read)

        def function(other: Tensor, read: int = read) -> Tensor:
            return call.again({read: other})[0]

        wanted = oracle.jacobian(function, call.reads[read])
        torch.testing.assert_close(
            torch.tensor(found.toarray()), wanted.double(), rtol=1e-12, atol=1e-12
        )


def convolution(**options: Any) -> Function:
    return lambda image, weight, bias: functional.conv2d(image, weight, bias, **options)


IMAGE = ((2, 4, 6, 5),)
SQUARE = ((2, 4, 5, 5), (4, 4, 3, 3), (4,))
CLASSES = torch.tensor([0, 2, 1, 2])
WEIGHTS = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
STATISTICS = (torch.randn(4).double(), torch.rand(4).double() + 0.5)

OPERATORS: dict[str, tuple[Function, Sequence[Sequence[int]]]] = {
    "conv": (convolution(), SQUARE),
    "conv, all options": (
        convolution(stride=(2, 1), padding=(2, 1), dilation=(1, 2)),
        ((2, 4, 6, 5), (3, 4, 3, 2), (3,)),
    ),
    "conv in groups": (convolution(groups=2, padding=1), ((2, 4, 4, 4), (6, 2, 3, 3), (6,))),
    "conv by channel": (convolution(groups=4), ((1, 4, 4, 4), (4, 1, 3, 3), (4,))),
    "conv 1d": (functional.conv1d, ((2, 2, 6), (3, 2, 3), (3,))),
    "conv 3d": (functional.conv3d, ((1, 2, 3, 3, 3), (2, 2, 2, 2, 2), (2,))),
    "conv transposed": (
        lambda image, weight: functional.conv_transpose2d(
            image, weight, stride=2, padding=1, output_padding=1, groups=2, dilation=2
        ),
        ((2, 4, 3, 2), (4, 3, 3, 3)),
    ),
    "max pooling": (lambda x: functional.max_pool2d(x, 2), IMAGE),
    "max pooling, options": (lambda x: functional.max_pool2d(x, 3, 2, 1, 2), IMAGE),
    "max pooling 3d": (lambda x: functional.max_pool3d(x, 2), ((1, 2, 4, 4, 4),)),
    "adaptive max": (lambda x: functional.adaptive_max_pool2d(x, (4, 2)), IMAGE),
    "average pooling": (lambda x: functional.avg_pool2d(x, 2), IMAGE),
    "average, options": (lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True), IMAGE),
    "average, no padding": (
        lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False, ceil_mode=True),
        IMAGE,
    ),
    "average, divisor": (
        lambda x: functional.avg_pool2d(x, (3, 2), divisor_override=5),
        IMAGE,
    ),
    "average 3d": (lambda x: functional.avg_pool3d(x, 2), ((1, 2, 4, 4, 4),)),
    "adaptive average": (lambda x: functional.adaptive_avg_pool2d(x, (4, 3)), IMAGE),
    "global average": (lambda x: functional.adaptive_avg_pool2d(x, 1), IMAGE),
    "mean": (torch.mean, IMAGE),
    "mean over axes": (lambda x: x.mean((1, -1)), IMAGE),
    "sum over an axis": (lambda x: x.sum(2, keepdim=True), IMAGE),
    "sum": (torch.sum, IMAGE),
    "batch norm, training": (
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        ((3, 4, 2, 2), (4,), (4,)),
    ),
    "batch norm, vectors": (
        lambda x: functional.batch_norm(x, None, None, training=True),
        ((5, 4),),
    ),
    "batch norm, stored": (
        lambda x, w, b: functional.batch_norm(x, *STATISTICS, w, b),
        ((3, 4, 2, 2), (4,), (4,)),
    ),
    "layer norm": (
        lambda x, w, b: functional.layer_norm(x, (4, 3), w, b),
        ((2, 5, 4, 3), (4, 3), (4, 3)),
    ),
    "group norm": (
        lambda x, w, b: functional.group_norm(x, 2, w, b),
        ((2, 4, 3, 2), (4,), (4,)),
    ),
    "linear": (functional.linear, ((3, 4), (5, 4), (5,))),
    "addmm": (
        lambda m, a, b: torch.addmm(m, a, b, beta=2, alpha=3),
        ((3, 1), (3, 4), (4, 5)),
    ),
    "matrix product": (torch.mm, ((3, 4), (4, 5))),
    "batched product": (torch.bmm, ((2, 3, 4), (2, 4, 5))),
    "log softmax": (lambda x: functional.log_softmax(x, 1), ((2, 3, 4),)),
    "softmax": (lambda x: functional.softmax(x, -1), ((2, 3, 4),)),
    "cross entropy": (lambda x: functional.cross_entropy(x, CLASSES), ((4, 3),)),
    "cross entropy, options": (
        lambda x: functional.cross_entropy(x, CLASSES, WEIGHTS, ignore_index=1),
        ((4, 3),),
    ),
    "cross entropy, none": (
        lambda x: functional.cross_entropy(x, CLASSES, reduction="none"),
        ((4, 3),),
    ),
    "cross entropy, pixels": (
        lambda x: functional.cross_entropy(x, CLASSES.reshape(2, 2, 1), WEIGHTS),
        ((2, 3, 2, 1),),
    ),
    "cross entropy, one": (
        lambda x: functional.cross_entropy(x, CLASSES[0], reduction="sum"),
        ((3,),),
    ),
    "squares": (functional.mse_loss, ((2, 3), (2, 3))),
    "squares, none": (lambda a, b: functional.mse_loss(a, b, reduction="none"), ((6,), (6,))),
    "concatenation": (lambda a, b: torch.cat([a, b, a], 1), ((2, 3), (2, 1))),
    "stack": (lambda a, b: torch.stack([a, b], 1), ((2, 3), (2, 3))),
    "padding": (lambda x: functional.pad(x, (1, 2, -1, 1), value=7), IMAGE),
    "gather": (lambda x: x.gather(1, torch.tensor([[0, 0], [2, 1]])), ((2, 3),)),
    "flip and roll": (lambda x: x.flip(0).roll(2, 1), ((2, 3),)),
    "repeat": (lambda x: x.repeat(2, 3), ((2, 3),)),
    "a copy of a transpose": (lambda x: x.T.contiguous(), ((2, 3),)),
    "broadcast sum": (lambda a, b: torch.add(a, b, alpha=3), ((2, 3, 4), (3, 1))),
    "quotient": (lambda a, b: a / (b * b), ((2, 3), (3,))),
    "choice": (lambda a, b: torch.where(a > 0, a, b), ((2, 3), (2, 1))),
    "gelu": (functional.gelu, IMAGE),
    "hard tanh": (lambda x: functional.hardtanh(x, -0.5, 0.5), IMAGE),
    "a slope that is learnt": (functional.prelu, ((2, 3, 2), (3,))),
    "in place": (lambda x: (x * 2).relu_().mul_(3), ((2, 3),)),
    "cumulated": (lambda x: x.cumsum(1), ((2, 3),)),
    "inverse": (torch.linalg.inv, ((3, 3),)),
    "embedding": (lambda x: functional.embedding(CLASSES, x), ((3, 2),)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_jacobians_are_autograds(name: str) -> None:
    found = calls(*OPERATORS[name])
    assert found
    for call in found:
        check(call)


@pytest.mark.parametrize("name", ["gelu", "log softmax", "linear", "batch norm, training", "mean"])
def test_blocks_of_an_operator_take_one_product_a_column(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calls(*OPERATORS[name])[0]
    made: list[int] = []
    backward = Call.backward

    def counting(self: Call, gradients: Any, at: Any = None, *, batched: bool = False) -> Any:
        made.extend(map(len, gradients.values()))
        return backward(self, gradients, at, batched=batched)

    monkeypatch.setattr(Call, "backward", counting)
    transposed_jacobian(found, found.carrying[-1] if name == "linear" else found.carrying[0])
    columns = {"gelu": 1, "log softmax": 3, "linear": 3, "batch norm, training": 12, "mean": 1}
    assert made == [columns[name]]


def test_products_in_parts_are_those_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (call,) = calls(*OPERATORS["inverse"])
    found = by_products(call, 0)
    monkeypatch.setattr(jacobians, "AT_ONCE", 20)
    assert (by_products(call, 0) != found).nnz == 0


def test_products_of_a_later_result() -> None:
    (call,) = calls(lambda x: torch.std_mean(x, 1)[1], ((2, 3),))
    found = by_products(call, 0, 1).toarray()
    assert found == pytest.approx(torch.tensor([[1 / 3, 0]] * 3 + [[0, 1 / 3]] * 3).numpy())


def test_what_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jacobians, "MOST_ENTRIES", 1000)
    (call, *_) = calls(convolution(padding=1), SQUARE)
    with pytest.raises(ValueError, match=r"of convolution has 7,200 entries; at most 1,000"):
        transposed_jacobian(call, 0)


def test_closed_forms_hold_no_zeros() -> None:
    (call, *_) = calls(convolution(padding=1), SQUARE)
    # Each of 5 x 5 pixels has 3 x 3 neighbours, fewer at the border: 13 x 13 pairs.
    assert transposed_jacobian(call, 0).nnz == 2 * 4 * 4 * 13 * 13
