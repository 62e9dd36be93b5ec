"""Inception-v4 (Szegedy, Ioffe, Vanhoucke and Alemi 2017, Figs. 3-9)."""

from __future__ import annotations

from torch import nn

from workbench.zoo.branches import Branches, ConvNorm


def inception_v4(classes: int = 1000) -> nn.Sequential:
    """Inception-v4 for 3x299x299 images; 42,679,816 parameters."""
    model = nn.Sequential()
    model.add_module("stem", _stem())
    for index in range(1, 5):
        model.add_module(f"inception_a{index}", _inception_a())
    model.add_module("reduction_a", _reduction_a())
    for index in range(1, 8):
        model.add_module(f"inception_b{index}", _inception_b())
    model.add_module("reduction_b", _reduction_b())
    for index in range(1, 4):
        model.add_module(f"inception_c{index}", _inception_c())
    model.add_module("pool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("dropout", nn.Dropout(0.2))
    model.add_module("fc", nn.Linear(1536, classes))
    return model


def _stem() -> nn.Sequential:
    """Fig. 3: 3x299x299 to 384x35x35."""
    return nn.Sequential(
        ConvNorm(3, 32, 3, stride=2, valid=True),
        ConvNorm(32, 32, 3, valid=True),
        ConvNorm(32, 64, 3),
        Branches(nn.MaxPool2d(3, stride=2), ConvNorm(64, 96, 3, stride=2, valid=True)),
        Branches(
            nn.Sequential(ConvNorm(160, 64, 1), ConvNorm(64, 96, 3, valid=True)),
            nn.Sequential(
                ConvNorm(160, 64, 1),
                ConvNorm(64, 64, (7, 1)),
                ConvNorm(64, 64, (1, 7)),
                ConvNorm(64, 96, 3, valid=True),
            ),
        ),
        Branches(ConvNorm(192, 192, 3, stride=2, valid=True), nn.MaxPool2d(3, stride=2)),
    )


def _inception_a() -> Branches:
    """Fig. 4: 384 channels at 35x35."""
    return Branches(
        nn.Sequential(_average(), ConvNorm(384, 96, 1)),
        ConvNorm(384, 96, 1),
        nn.Sequential(ConvNorm(384, 64, 1), ConvNorm(64, 96, 3)),
        nn.Sequential(ConvNorm(384, 64, 1), ConvNorm(64, 96, 3), ConvNorm(96, 96, 3)),
    )


def _reduction_a() -> Branches:
    """Fig. 7 with k=192, l=224, m=256, n=384: 35x35 to 1024 channels at 17x17."""
    return Branches(
        nn.MaxPool2d(3, stride=2),
        ConvNorm(384, 384, 3, stride=2, valid=True),
        nn.Sequential(
            ConvNorm(384, 192, 1),
            ConvNorm(192, 224, 3),
            ConvNorm(224, 256, 3, stride=2, valid=True),
        ),
    )


def _inception_b() -> Branches:
    """Fig. 5: 1024 channels at 17x17."""
    return Branches(
        nn.Sequential(_average(), ConvNorm(1024, 128, 1)),
        ConvNorm(1024, 384, 1),
        nn.Sequential(
            ConvNorm(1024, 192, 1), ConvNorm(192, 224, (1, 7)), ConvNorm(224, 256, (7, 1))
        ),
        nn.Sequential(
            ConvNorm(1024, 192, 1),
            ConvNorm(192, 192, (1, 7)),
            ConvNorm(192, 224, (7, 1)),
            ConvNorm(224, 224, (1, 7)),
            ConvNorm(224, 256, (7, 1)),
        ),
    )


def _reduction_b() -> Branches:
    """Fig. 8: 17x17 to 1536 channels at 8x8."""
    return Branches(
        nn.MaxPool2d(3, stride=2),
        nn.Sequential(ConvNorm(1024, 192, 1), ConvNorm(192, 192, 3, stride=2, valid=True)),
        nn.Sequential(
            ConvNorm(1024, 256, 1),
            ConvNorm(256, 256, (1, 7)),
            ConvNorm(256, 320, (7, 1)),
            ConvNorm(320, 320, 3, stride=2, valid=True),
        ),
    )


def _inception_c() -> Branches:
    """Fig. 6: 1536 channels at 8x8; two of the branches fork once more."""
    return Branches(
        nn.Sequential(_average(), ConvNorm(1536, 256, 1)),
        ConvNorm(1536, 256, 1),
        nn.Sequential(ConvNorm(1536, 384, 1), _fork(384)),
        nn.Sequential(
            ConvNorm(1536, 384, 1),
            ConvNorm(384, 448, (1, 3)),
            ConvNorm(448, 512, (3, 1)),
            _fork(512),
        ),
    )


def _fork(channels_in: int) -> Branches:
    return Branches(ConvNorm(channels_in, 256, (1, 3)), ConvNorm(channels_in, 256, (3, 1)))


def _average() -> nn.AvgPool2d:
    return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
