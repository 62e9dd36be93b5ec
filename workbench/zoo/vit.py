"""The vision transformer (Dosovitskiy et al. 2021), its smallest, and that for small images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from workbench.zoo.transformer import Block, draw


class ViT(nn.Module):
    """Square patches of an image as positions, and one more for the classes."""

    def __init__(
        self, classes: int, image: int, patch: int, *, width: int, depth: int, heads: int
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, eps=1e-6) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, 1e-6)
        self.head = nn.Linear(width, classes)
        draw(self)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of classes, samples x classes."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])  # type: ignore[no-any-return]


def vit_b_16(classes: int = 1000) -> ViT:
    """ViT-B/16 for 3x224x224 images, without dropout; 86,567,656 parameters."""
    return ViT(classes, 224, 16, width=768, depth=12, heads=12)


def vit_tiny(classes: int = 1000) -> ViT:
    """ViT-Ti/16 (Touvron et al. 2021) for 3x224x224 images; 5,717,416 parameters."""
    return ViT(classes, 224, 16, width=192, depth=12, heads=3)


def vit_tiny_cifar(classes: int = 10) -> ViT:
    """Four blocks of width 64 for 3x32x32 images, patches of 4x4 pixels; 208,074 parameters."""
    return ViT(classes, 32, 4, width=64, depth=4, heads=4)
