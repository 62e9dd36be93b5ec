"""Blocks that several networks share."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

Size = int | tuple[int, int]


def named(**parts: nn.Module) -> nn.Sequential:
    """Parts one after the other, by name."""
    return nn.Sequential(OrderedDict(parts))


def conv_norm(
    channels_in: int,
    channels: int,
    kernel: Size,
    stride: int = 1,
    *,
    padding: int | None = None,
    groups: int = 1,
    eps: float = 1e-5,
    fan_out: bool = False,
    relu: nn.Module | None = None,
) -> nn.Sequential:
    """A convolution without bias, batch normalisation, and ReLU if given.

    Padding keeps the map's size by default. With `fan_out`, weights are drawn as He et al. 2015
    derive for the backward pass.
    """
    height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    around = (height // 2, width // 2) if padding is None else padding
    conv = nn.Conv2d(
        channels_in, channels, (height, width), stride, around, groups=groups, bias=False
    )
    if fan_out:
        nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    block = named(conv=conv, norm=nn.BatchNorm2d(channels, eps=eps))
    if relu is not None:
        block.add_module("relu", relu)
    return block


class Branches(nn.Module):
    """Branches side by side on one input; their channels are joined."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Join the branches' channels."""
        return torch.cat([branch(x) for branch in self.branches], 1)
