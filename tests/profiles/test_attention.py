"""PyTorch's attention, traced: the bits of its ordinary path, and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.memory.tracing.modules import Calling
from tests.memory.tracing.test_functional import check_step, same
from tests.profiles.attention import MODULES, SHAPE
from workbench.memory import trace
from workbench.memory.executor import run
from workbench.memory.tracing.functional import default_loss
from workbench.utils.checks import UserError


@pytest.fixture(autouse=True)
def _ordinary_path() -> Iterator[None]:
    """In inference PyTorch has a fused path beside it, whose sums are rounded otherwise."""
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(was_enabled)


@pytest.mark.parametrize("name", MODULES)
def test_attention_has_pytorchs_bits(name: str) -> None:
    torch.manual_seed(0)
    module, x, y = MODULES[name](), torch.randn(3, *SHAPE), torch.tensor([0, 1, 2])
    graph = trace(module, SHAPE, 3)
    with torch.no_grad():
        same(run(graph, x), [module.eval()(x)])
    graph = trace(module, SHAPE, 3, training=True)
    check_step(graph, (x, y), module, lambda: default_loss(module.train()(x), y))


def activated(m: Any, x: Tensor) -> Tensor:
    """Functions of which PyTorch has a backward pass that can itself be differentiated."""
    x = nn.functional.silu(m.layer(x)) + nn.functional.mish(x)
    return nn.functional.gelu(x, approximate="tanh").mean(1)


def test_a_gradient_is_not_made_to_be_differentiated() -> None:
    """Else the sigmoid in SiLU's gradient is an operator of its own, with other roundings."""
    torch.manual_seed(0)
    module, x = Calling(activated, layer=nn.Linear(16, 16)), torch.randn(3, *SHAPE)
    graph = trace(module, SHAPE, 3, training=True)
    names = [operator.name for operator in graph.operators if operator.phase == "backward"]
    assert "silu_backward" in names
    assert "sigmoid" not in names
    y = torch.tensor([0, 1, 2])
    check_step(graph, (x, y), module, lambda: default_loss(module(x), y))


def test_a_causal_hint_needs_its_mask() -> None:
    """PyTorch takes no hint without a mask; without either, no position would be hidden."""
    attention = nn.MultiheadAttention(16, 4, batch_first=True)
    hinted = Calling(lambda m, x: m.f(x, x, x, is_causal=True)[0], f=attention)
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        hinted(torch.zeros(1, *SHAPE))
    with pytest.raises((RuntimeError, UserError), match="Need attn_mask"):
        trace(hinted, SHAPE)
