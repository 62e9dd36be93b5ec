"""Small networks with branches, skips, shared weights and writes in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """Two blocks with skips, normalisation and writes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(3) for _ in range(3))
        self.convolutions = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(2))
        self.head = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norms[0](self.stem(x)), inplace=True)
        for norm, convolution in zip(self.norms[1:], self.convolutions, strict=True):
            x = functional.relu(norm(convolution(x)) + x, inplace=True)
        found: Tensor = self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return found


class Inception(nn.Module):
    """Branches of different depth, concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.three = nn.Conv2d(1, 2, 1), nn.Conv2d(1, 2, 3, padding=1)
        self.deep = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Conv2d(2, 1, 3, padding=1))
        self.head = nn.Linear(6 * 9, 3)

    def forward(self, x: Tensor) -> Tensor:
        pooled = functional.max_pool2d(x, 3, 1, 1)
        branches = [self.one(x), torch.tanh(self.three(x)), self.deep(x), pooled]
        found: Tensor = self.head(functional.avg_pool2d(torch.cat(branches, 1), 2).flatten(1))
        return found


class Tied(nn.Module):
    """One matrix used twice, once transposed, and a part of a value that is written into."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.out = nn.Linear(4, 4), nn.Linear(4, 3)
        self.unused, self.frozen = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(4))
        self.frozen.requires_grad_(False)
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.shared(x)) * self.frozen
        hidden = hidden @ self.shared.weight.T * torch.exp(self.gain)
        hidden[:, 1:3].mul_(2)
        hidden[:, 0] = hidden[:, 3].detach().clone() * hidden[:, 2]
        with torch.no_grad():
            scale = hidden.mean()
        found: Tensor = self.out(hidden * scale + self.gain)
        return found


class Cells(nn.Module):
    """A recurrent cell, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.RNNCell(2, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.zeros(len(x), 3, dtype=x.dtype)
        for step in x.unbind(1):
            hidden = self.cell(step, hidden)
        found: Tensor = self.head(hidden)
        return found


class Recurrent(nn.Module):
    """PyTorch's own recurrent layers, which write in place below what a user sees."""

    def __init__(self, kind: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.layers, self.head = kind(2, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.layers(x.transpose(0, 1))[0][-1])
        return found


class Attention(nn.Module):
    """A transformer's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.layer(x).mean(1))
        return found


class Scaled(nn.Module):
    """A constant that is no buffer, an empty part, and a lone number that is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(4, 3), nn.Parameter(torch.tensor(0.5))
        self.constant = torch.linspace(0, 1, 16).reshape(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x @ self.constant.to(x.dtype), (x * self.scale)[:, :0]], 1)
        found: Tensor = self.linear(x * self.scale)
        return found


class Several(nn.Module):
    """Operators with several results, some of them used."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.head = nn.Linear(4, 4), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        deviation, mean = torch.std_mean(x, 1, keepdim=True)
        left, right = ((x - mean) / deviation).chunk(2, 1)
        largest, _ = (left * right[:, [1, 0]]).max(1, keepdim=True)
        ordered, places = x.sort(1)
        found: Tensor = self.head(torch.cat([largest, ordered * (places > 1)], 1))
        return found


class Deciding(nn.Module):
    """Control flow that depends on numbers, and numbers drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.dropout(self.first(x), 0.4, self.training)
        if x.sum() > 0:
            x = -x
        found: Tensor = self.second(functional.rrelu(x, training=self.training))
        return found


def chain() -> nn.Module:
    convolutions = [nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*convolutions, nn.Linear(18, 5), nn.Sigmoid(), nn.Linear(5, 4))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "chain": (chain, (2, 1, 6, 6)),
    "residual": (Residual, (2, 1, 4, 4)),
    "residual, evaluated": (lambda: Residual().eval(), (2, 1, 4, 4)),
    "inception": (Inception, (2, 1, 6, 6)),
    "tied": (Tied, (2, 4)),
    "cells": (Cells, (2, 5, 2)),
    "rnn": (lambda: Recurrent(nn.RNN), (2, 4, 2)),
    "lstm": (lambda: Recurrent(nn.LSTM), (2, 3, 2)),
    "gru": (lambda: Recurrent(nn.GRU), (2, 3, 2)),
    "attention": (Attention, (2, 3, 4)),
    "scaled": (Scaled, (2, 4)),
    "several": (Several, (2, 4)),
    "deciding": (Deciding, (3, 4)),
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
