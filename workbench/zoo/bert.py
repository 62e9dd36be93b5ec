"""BERT (Devlin, Chang, Lee and Toutanova 2019) of the smallest size, with a head for classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from workbench.zoo.transformer import Block, draw


class BERT(nn.Module):
    """Classes of a text, read from its first position."""

    def __init__(self, classes: int, tokens: int, *, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.positions = nn.Embedding(512, width)
        self.segments = nn.Embedding(2, width)
        self.norm, self.dropout = nn.LayerNorm(width, 1e-12), nn.Dropout(0.1)
        self.blocks = nn.Sequential(
            *(Block(width, heads, dropout=0.1, norm_first=False, eps=1e-12) for _ in range(depth))
        )
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, classes)
        draw(self)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of classes, samples x classes, of tokens, samples x positions."""
        places = self.positions.weight[: tokens.shape[1]] + self.segments.weight[0]
        x = self.blocks(self.dropout(self.norm(self.tokens(tokens) + places)))
        return self.head(self.dropout(torch.tanh(self.pooler(x[:, 0]))))  # type: ignore[no-any-return]


def bert_tiny(classes: int = 2) -> BERT:
    """BERT-Tiny (Turc et al. 2019) for texts of up to 512 tokens; 4,386,178 parameters.

    Deviation: every text is one segment, without padding.
    """
    return BERT(classes, 30522, width=128, depth=2, heads=2)
