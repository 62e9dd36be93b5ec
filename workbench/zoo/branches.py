"""What Inception networks are made of: normalised convolutions, side by side."""

from __future__ import annotations

import torch
from torch import Tensor, nn

Size = int | tuple[int, int]


class ConvNorm(nn.Sequential):
    """Convolution without bias, batch normalisation, ReLU; "valid" only where it says so."""

    def __init__(
        self, channels_in: int, channels: int, kernel: Size, stride: int = 1, *, valid: bool = False
    ) -> None:
        super().__init__()
        height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        padding = (0, 0) if valid else (height // 2, width // 2)
        self.conv = nn.Conv2d(
            channels_in, channels, (height, width), stride, padding=padding, bias=False
        )
        self.norm = nn.BatchNorm2d(channels, eps=0.001)
        self.relu = nn.ReLU()


class Branches(nn.Module):
    """Branches side by side on one input; their channels are joined."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Join the branches' channels."""
        return torch.cat([branch(x) for branch in self.branches], 1)
