"""Users' modules with what makes flattening hard."""

from __future__ import annotations

from typing import Any

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


class Lora(nn.Module):
    """A frozen linear layer with adapters of low rank by name (Hu et al. 2021), as peft has it."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base_layer = frozen
        down = nn.Linear(frozen.in_features, rank, bias=False)
        up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(up.weight)
        self.lora_A, self.lora_B = nn.ModuleDict({"default": down}), nn.ModuleDict({"default": up})
        self.lora_dropout = nn.ModuleDict({"default": nn.Identity()})
        self.scaling, self.active_adapters = {"default": 2.0}, ["default"]

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        out: Tensor = self.base_layer(x, *args, **kwargs)
        for name in self.active_adapters:
            narrow = self.lora_A[name](self.lora_dropout[name](x).to(out.dtype))
            out = out + self.lora_B[name](narrow) * self.scaling[name]
        return out


def with_adapters(module: nn.Module) -> nn.Module:
    """Freeze a module but for an adapter beside each of its linear layers."""
    module.requires_grad_(False)
    linear = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    for name in linear:
        parent, _, key = name.rpartition(".")
        held = module.get_submodule(parent)
        setattr(held, key, Lora(module.get_submodule(name), rank=2))  # type: ignore[arg-type]
    return module
