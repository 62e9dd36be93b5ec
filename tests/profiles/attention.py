"""Modules of PyTorch's attention, from samples x 6 positions x 16."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

SHAPE = (6, 16)


class Attending(nn.Module):
    """Attention to itself; with `masked`, to narrower keys, some left out, none later."""

    def __init__(self, *, weights: bool, masked: bool = False, dropout: float = 0.1) -> None:
        super().__init__()
        width = 8 if masked else 16
        self.keys = nn.Linear(16, width)
        self.attention = nn.MultiheadAttention(
            16, 4, dropout, batch_first=True, kdim=width, vdim=width
        )
        self.head = nn.Linear(16, 5)
        self.weights, self.masked = weights, masked

    def forward(self, x: Tensor) -> Tensor:
        key, masks = x, {}
        if self.masked:
            key = self.keys(x)
            no_later = torch.full((6, 6), float("-inf")).triu(1)
            masks = {"key_padding_mask": x[:, :, 0] > 2.5, "attn_mask": no_later}
        mixed, _ = self.attention(x, key, key, need_weights=self.weights, **masks)
        return self.head(mixed[:, 0])  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """Two layers, samples or positions first."""

    def __init__(self, *, samples_first: bool, norm_first: bool = False, classes: int = 5) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            16, 4, 32, batch_first=samples_first, norm_first=norm_first
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, classes)
        self.samples_first = samples_first

    def forward(self, x: Tensor) -> Tensor:
        if self.samples_first:
            return self.head(self.layers(x).mean(1))  # type: ignore[no-any-return]
        return self.head(self.layers(x.transpose(0, 1)).mean(0))  # type: ignore[no-any-return]


class Both(nn.Module):
    """An encoder beside a decoder, which attends to it."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Transformer(16, 4, 1, 1, 32, 0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.both(x, x)  # type: ignore[no-any-return]


MODULES: dict[str, Callable[[], nn.Module]] = {
    "weights": partial(Attending, weights=True),
    "no weights": partial(Attending, weights=False),
    "weights, masked": partial(Attending, weights=True, masked=True),
    "no weights, masked": partial(Attending, weights=False, masked=True),
    "encoder": partial(Encoder, samples_first=True),
    "encoder, norm first": partial(Encoder, samples_first=True, norm_first=True),
    "encoder, positions first": partial(Encoder, samples_first=False),
    "encoder and decoder": Both,
}
