"""The transformer's block (Vaswani et al. 2017, Sec. 3), as GPT, ViT and BERT have it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Self-attention of several heads; with `causal`, to no later position."""

    def __init__(self, width: int, heads: int, dropout: float, causal: bool) -> None:
        super().__init__()
        self.heads, self.drop, self.causal = heads, dropout, causal
        self.read, self.write = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map samples x positions x width to the same shape."""
        split = self.read(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        drop = self.drop if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=drop, is_causal=self.causal
        )
        return self.dropout(self.write(mixed.transpose(1, 2).flatten(2)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and two linear layers, each added to its input.

    Normalised before each, as GPT-2 and ViT have it; or after each addition, as BERT has it.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        dropout: float = 0.0,
        causal: bool = False,
        norm_first: bool = True,
        approximate: str = "none",
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.norm1, self.norm2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.attention = Attention(width, heads, dropout, causal)
        self.layers = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(approximate),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map samples x positions x width to the same shape."""
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            return x + self.layers(self.norm2(x))  # type: ignore[no-any-return]
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.layers(x))  # type: ignore[no-any-return]


@torch.no_grad()
def draw(module: nn.Module, spread: float = 0.02) -> None:
    """Draw matrices from a normal distribution, as GPT-2 and BERT do; biases are zero."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=spread)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
