"""Operators of a module that was followed: their reads, their results and their layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from workbench.profiles import UntraceableError, find_layers, follow, profile_model
from workbench.profiles.graph import Operator, OperatorGraph
from workbench.profiles.layers import CONSTANT
from workbench.training import cut


def test_graph_whose_properties_were_read_can_be_replaced() -> None:
    graph = follow("lenet5")
    assert graph.outside
    other = replace(graph, name="mine", operators=graph.operators[:1])
    assert (other.name, len(other.nodes)) == ("mine", 4)
    assert other.outside == graph.outside


def operators(graph: OperatorGraph, name: str) -> list[Operator]:
    return [operator for operator in graph.operators if operator.name == name]


class Stepping(nn.Module):
    """A view, a write in place, a product of parameters, and a counter."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(2, 2)
        self.gain = nn.Parameter(torch.ones(4))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        self.count += 1
        x.mul_(torch.exp(self.gain))
        out: Tensor = self.second(x[:, :2])
        return out


def test_writes_make_values_and_views_do_not() -> None:
    graph = follow(Stepping(), (4,))
    (product,) = operators(graph, "mul_")
    made, (read, gain) = product.makes[0], product.reads
    assert graph.values[made.value].storage == graph.values[read.value].storage
    assert made.value != read.value
    assert (made.shape, made.size_bytes) == ((2, 4), 32)
    assert graph.values[gain.value].origin == "operator"
    (half,) = operators(graph, "slice")
    assert not half.makes
    assert operators(graph, "addmm")[1].reads[1].value == made.value
    assert graph.outputs[0].value == operators(graph, "addmm")[1].makes[0].value


def test_every_operator_has_a_layer() -> None:
    graph = follow(Stepping(), (4,))
    layers = find_layers(graph)
    found = {
        (operator.name, layer)
        for operator, layer in zip(graph.operators, layers.of_operators, strict=True)
    }
    # The counter is of the operator's before it; what is made of parameters, of who uses it.
    assert {("add_", 1), ("exp", 1), ("mul_", 1), ("slice", 1), ("addmm", 2)} <= found
    names = [one.name for one in layers.parameters[0]]
    assert names == ["gain", "first.weight", "first.bias"]
    (exp,) = operators(graph, "exp")
    assert layers.of_values[exp.makes[0].value] == CONSTANT
    assert set(layers.first_uses.values()) == {1, 2}


def test_flops_of_both_passes() -> None:
    graph = follow(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), (4,), backward=True)
    first, second = (one for one, op in enumerate(graph.operators) if op.name == "addmm")
    assert [graph.operators[one].flops for one in (first, second)] == [2 * 2 * 12, 2 * 2 * 6]
    # The model's input needs no gradient.
    assert dict(graph.backward_flops) == {first: 2 * 2 * 12, second: 2 * 2 * 2 * 6}
    assert not follow("lenet5").backward_flops


def test_modules_as_layers_run_for_real() -> None:
    class Asking(Stepping):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x if float(x.sum()) > 0 else -x)

    with pytest.raises(UntraceableError, match="Asking cannot be traced: in its forward"):
        follow(Asking(), (4,))
    graph = follow(Asking(), (4,), by="modules")
    assert graph.modules == ("Asking", "first", "second")


def test_the_innermost_module_that_fails_is_named() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(4, 3)))
    with pytest.raises(ValueError, match=r"does not fit Sequential: at layer '1\.1' \(Linear"):
        follow(module, (4,))


class Block(nn.Module):
    """A linear layer, then a residual block that normalises before its linear layer, or after."""

    def __init__(self, norm: nn.Module, *, norm_first: bool = True) -> None:
        super().__init__()
        self.before, self.norm, self.linear = nn.Linear(8, 8), norm, nn.Linear(8, 8)
        self.norm_first = norm_first

    def forward(self, x: Tensor) -> Tensor:
        before: Tensor = self.before(x)
        normalised: Tensor = self.norm(before)
        kept = before if self.norm_first else normalised
        return kept + self.linear(normalised)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "norm", [nn.LayerNorm, nn.RMSNorm, nn.BatchNorm1d], ids=lambda n: n.__name__
)
def test_normalisation_of_what_crosses_anyway_is_in_the_next_layer(norm: type[nn.Module]) -> None:
    first = profile_model(Block(norm(8)), (8,))
    weights = sum(parameter.numel() for parameter in norm(8).parameters())
    assert first.layers == ("before", "linear")
    assert first.table["output_bytes"][0] == 4 * 8  # x alone, without its normalised form
    assert first.table["param_bytes"].to_list() == [4 * 72, 4 * (72 + weights)]
    after = profile_model(Block(norm(8), norm_first=False), (8,))
    assert after.table["output_bytes"][0] == 4 * 8
    assert after.table["param_bytes"].to_list() == [4 * (72 + weights), 4 * 72]
    pieces = cut(Block(norm(8)), (8,))
    assert pieces.crossing_bytes == (4 * 8,)
    assert any("norm" in name for name in pieces.parameters[1])
    assert not any("norm" in name for name in pieces.parameters[0])


def test_a_cut_of_gpt2_carries_one_tensor_between_blocks() -> None:
    sizes = profile_model("gpt2").table["output_bytes"]
    assert set(sizes[0:48:4].to_list()) == {4 * 1024 * 768}
