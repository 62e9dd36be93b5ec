"""Small networks with branches, skips, shared weights and writes in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.memory.tracing.modules import Calling


def residual(m: Any, x: Tensor) -> Any:
    """Two blocks with skips, normalisation and writes in place."""
    x = functional.relu(m.norms[0](m.stem(x)), inplace=True)
    for norm, convolution in zip(m.norms[1:], m.convolutions, strict=True):
        x = functional.relu(norm(convolution(x)) + x, inplace=True)
    return m.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))


def inception(m: Any, x: Tensor) -> Any:
    """Branches of different depth, concatenated."""
    branches = [m.one(x), torch.tanh(m.three(x)), m.deep(x), functional.max_pool2d(x, 3, 1, 1)]
    return m.head(functional.avg_pool2d(torch.cat(branches, 1), 2).flatten(1))


def tied(m: Any, x: Tensor) -> Any:
    """One matrix used twice, once transposed, and a part of a value that is written into."""
    hidden = torch.tanh(m.shared(x)) * m.frozen
    hidden = hidden @ m.shared.weight.T * torch.exp(m.gain)
    hidden[:, 1:3].mul_(2)
    hidden[:, 0] = hidden[:, 3].detach().clone() * hidden[:, 2]
    with torch.no_grad():
        scale = hidden.mean()
    return m.out(hidden * scale + m.gain)


def cells(m: Any, x: Tensor) -> Any:
    """A recurrent cell, step by step."""
    hidden = torch.zeros(len(x), 3, dtype=x.dtype)
    for step in x.unbind(1):
        hidden = m.cell(step, hidden)
    return m.head(hidden)


def recurrent(m: Any, x: Tensor) -> Any:
    """PyTorch's own recurrent layers, which write in place below what a user sees."""
    return m.head(m.layers(x.transpose(0, 1))[0][-1])


def scaled(m: Any, x: Tensor) -> Any:
    """A constant that is no buffer, an empty part, and a lone number that is learnt."""
    x = torch.cat([x @ m.constant.to(x.dtype), (x * m.scale)[:, :0].exp()], 1)
    return m.linear(x * m.scale)


def several(m: Any, x: Tensor) -> Any:
    """Operators with several results, some of them used."""
    x = m.linear(x)
    deviation, mean = torch.std_mean(x, 1, keepdim=True)
    left, right = ((x - mean) / deviation).chunk(2, 1)
    largest, _ = (left * right[:, [1, 0]]).max(1, keepdim=True)
    ordered, places = x.sort(1)
    return m.head(torch.cat([largest, ordered * (places > 1)], 1))


def deciding(m: Any, x: Tensor) -> Any:
    """Control flow that depends on numbers, and numbers drawn."""
    x = functional.dropout(m.first(x), 0.4, m.training)
    if x.sum() > 0:
        x = -x
    return m.second(x)


def made_residual() -> nn.Module:
    norms = nn.ModuleList(nn.BatchNorm2d(3) for _ in range(3))
    convolutions = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(2))
    stem, head = nn.Conv2d(1, 3, 3, padding=1), nn.Linear(3, 4)
    return Calling(residual, stem=stem, norms=norms, convolutions=convolutions, head=head)


def made_inception() -> nn.Module:
    deep = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Conv2d(2, 1, 3, padding=1))
    one, three = nn.Conv2d(1, 2, 1), nn.Conv2d(1, 2, 3, padding=1)
    return Calling(inception, one=one, three=three, deep=deep, head=nn.Linear(6 * 9, 3))


def made_tied() -> nn.Module:
    numbers = {name: nn.Parameter(torch.ones(4)) for name in ("unused", "frozen", "gain")}
    numbers["frozen"].requires_grad_(False)
    return Calling(tied, shared=nn.Linear(4, 4), out=nn.Linear(4, 3), **numbers)


def of_layers(kind: Callable[[int, int], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: Calling(recurrent, layers=kind(2, 3), head=nn.Linear(3, 3))


def attention() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, batch_first=True)
    return Calling(lambda m, x: m.head(m.layer(x).mean(1)), layer=layer, head=nn.Linear(4, 3))


def made_scaled() -> nn.Module:
    constant, scale = torch.linspace(0, 1, 16).reshape(4, 4), nn.Parameter(torch.tensor(0.5))
    return Calling(scaled, linear=nn.Linear(4, 3), scale=scale, constant=constant)


def chain() -> nn.Module:
    convolutions = [nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*convolutions, nn.Linear(18, 5), nn.Sigmoid(), nn.Linear(5, 4))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "chain": (chain, (2, 1, 6, 6)),
    "residual": (made_residual, (2, 1, 4, 4)),
    "residual, evaluated": (lambda: made_residual().eval(), (2, 1, 4, 4)),
    "inception": (made_inception, (2, 1, 6, 6)),
    "tied": (made_tied, (2, 4)),
    "cells": (lambda: Calling(cells, cell=nn.RNNCell(2, 3), head=nn.Linear(3, 3)), (2, 5, 2)),
    "rnn": (of_layers(nn.RNN), (2, 4, 2)),
    "lstm": (of_layers(nn.LSTM), (2, 3, 2)),
    "gru": (of_layers(nn.GRU), (2, 3, 2)),
    "attention": (attention, (2, 3, 4)),
    "scaled": (made_scaled, (2, 4)),
    "several": (lambda: Calling(several, linear=nn.Linear(4, 4), head=nn.Linear(5, 3)), (2, 4)),
    "deciding": (
        lambda: Calling(deciding, first=nn.Linear(4, 4), second=nn.Linear(4, 3)),
        (3, 4),
    ),
    "normalised weights": (
        lambda: nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
            nn.Tanh(),
            nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
        ),
        (2, 4),
    ),
}


def example(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """A network with its batch, and a class a sample."""
    torch.manual_seed(5)
    build, shape = NETWORKS[name]
    module: Any = build()
    return module, torch.randn(shape), torch.arange(shape[0]) % 3


class Drawn(nn.Module):
    """A graph by a list: an operator, and which earlier results it reads."""

    def __init__(self, nodes: list[tuple[str, int, int]]) -> None:
        super().__init__()
        self.nodes = nodes
        self.linears = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.joining = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        found: list[Tensor] = [self.linears[0](x)]
        for kind, left, right in self.nodes:
            a, b = found[left % len(found)], found[right % len(found)]
            found.append(self.apply_one(kind, a, b))
        return found[-1] + found[len(found) // 2]

    def apply_one(self, kind: str, a: Tensor, b: Tensor) -> Tensor:
        """Of two tensors of shape (samples, 4), a third."""
        if kind.startswith("linear"):
            found: Tensor = self.linears[int(kind[-1])](a)
            return found
        made: dict[str, Callable[[], Tensor]] = {
            "tanh": lambda: torch.tanh(a),
            "add": lambda: a + b,
            "multiply": lambda: a * torch.sigmoid(b),
            "join": lambda: self.joining(torch.cat([a, b], 1)),
            "slice": lambda: torch.cat([a[:, 2:], b[:, :2]], 1),
            "transpose": lambda: (a.T @ b).T[:1].softmax(1).expand(len(a), 4),
            "write": lambda: a.clone().mul_(b[:, :1]),
        }
        return made[kind]()


KINDS = ("linear0", "linear1", "tanh", "add", "multiply", "join", "slice", "transpose", "write")
