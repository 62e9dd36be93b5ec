"""GPT-2 (Radford, Wu, Child, Luan, Amodei and Sutskever 2019), and a small one to train."""

from __future__ import annotations

from math import sqrt

from torch import Tensor, nn

from workbench.zoo.transformer import Block, draw


class GPT(nn.Module):
    """Scores of the next token after each position; the last layer has the embedding's weights."""

    def __init__(
        self, classes: int, length: int, *, width: int, depth: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(classes, width)
        self.positions = nn.Embedding(length, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(
                Block(width, heads, dropout=dropout, causal=True, approximate="tanh")
                for _ in range(depth)
            )
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes, bias=False)
        draw(self)
        for name, parameter in self.blocks.named_parameters():
            if name.endswith(("write.weight", "layers.2.weight")):  # added to the residual path
                parameter.data /= sqrt(2 * depth)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores, samples x positions x classes, of tokens, samples x positions."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(self.dropout(x))))  # type: ignore[no-any-return]


def gpt2(classes: int = 50257) -> GPT:
    """GPT-2's smallest, for texts of up to 1024 tokens; 124,439,808 parameters."""
    return GPT(classes, 1024, width=768, depth=12, heads=12, dropout=0.1)


def gpt_tiny(classes: int = 16) -> GPT:
    """Two blocks of width 64, four heads, for texts of up to 32 tokens; 103,168 parameters.

    `classes` is the number of different tokens. Without dropout, it learns a small source of
    tokens in minutes.
    """
    return GPT(classes, 32, width=64, depth=2, heads=4, dropout=0.0)
