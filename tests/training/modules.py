"""Users' modules with what makes flattening hard."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES = 4


class Awkward(nn.Module):
    """Registered out of order, a tied weight, branches, an idle and a frozen part, buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, CLASSES)
        self.idle = nn.Linear(2, 2)
        self.left, self.right = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.again = nn.Linear(6, 6)
        self.again.weight = self.left.weight
        self.norm = nn.BatchNorm1d(6)
        self.first = nn.Linear(5, 6)
        self.scale = nn.Parameter(torch.ones(6))
        self.first.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(torch.relu(self.first(x))) * self.scale
        x = self.again(torch.relu(self.left(x) + self.right(x)))
        out: Tensor = self.head(x)
        return out


class Dropping(nn.Sequential):
    """Draws at random when it trains."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(5, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, CLASSES))
