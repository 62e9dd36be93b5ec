"""Inception-v3 (Szegedy, Vanhoucke, Ioffe, Shlens and Wojna 2016, Table 1), as Keras has it.

Without the auxiliary classifier. The paper leaves the widths within its blocks open; they are those
of the published weights.
"""

from __future__ import annotations

from torch import nn

from workbench.zoo.branches import Branches, ConvNorm


def inception_v3(classes: int = 1000) -> nn.Sequential:
    """Inception-v3 for 3x299x299 images; 23,834,568 parameters."""
    model = nn.Sequential()
    model.add_module("stem", _stem())
    for index, (channels, pooled) in enumerate(((192, 32), (256, 64), (288, 64)), 1):
        model.add_module(f"inception_a{index}", _inception_a(channels, pooled))
    model.add_module("reduction_a", _reduction_a())
    for index, width in enumerate((128, 160, 160, 192), 1):
        model.add_module(f"inception_b{index}", _inception_b(width))
    model.add_module("reduction_b", _reduction_b())
    for index, channels in enumerate((1280, 2048), 1):
        model.add_module(f"inception_c{index}", _inception_c(channels))
    model.add_module("pool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("dropout", nn.Dropout(0.5))
    model.add_module("fc", nn.Linear(2048, classes))
    return model


def _stem() -> nn.Sequential:
    """3x299x299 to 192x35x35."""
    return nn.Sequential(
        ConvNorm(3, 32, 3, stride=2, valid=True),
        ConvNorm(32, 32, 3, valid=True),
        ConvNorm(32, 64, 3),
        nn.MaxPool2d(3, stride=2),
        ConvNorm(64, 80, 1),
        ConvNorm(80, 192, 3, valid=True),
        nn.MaxPool2d(3, stride=2),
    )


def _inception_a(channels: int, pooled: int) -> Branches:
    """At 35x35: 224 channels, and so many of the pooled branch."""
    return Branches(
        ConvNorm(channels, 64, 1),
        nn.Sequential(ConvNorm(channels, 48, 1), ConvNorm(48, 64, 5)),
        nn.Sequential(ConvNorm(channels, 64, 1), ConvNorm(64, 96, 3), ConvNorm(96, 96, 3)),
        nn.Sequential(_average(), ConvNorm(channels, pooled, 1)),
    )


def _reduction_a() -> Branches:
    """35x35 to 768 channels at 17x17."""
    return Branches(
        ConvNorm(288, 384, 3, stride=2, valid=True),
        nn.Sequential(
            ConvNorm(288, 64, 1), ConvNorm(64, 96, 3), ConvNorm(96, 96, 3, stride=2, valid=True)
        ),
        nn.MaxPool2d(3, stride=2),
    )


def _inception_b(width: int) -> Branches:
    """768 channels at 17x17, with convolutions of 7x7 in two halves."""
    return Branches(
        ConvNorm(768, 192, 1),
        nn.Sequential(
            ConvNorm(768, width, 1), ConvNorm(width, width, (1, 7)), ConvNorm(width, 192, (7, 1))
        ),
        nn.Sequential(
            ConvNorm(768, width, 1),
            ConvNorm(width, width, (7, 1)),
            ConvNorm(width, width, (1, 7)),
            ConvNorm(width, width, (7, 1)),
            ConvNorm(width, 192, (1, 7)),
        ),
        nn.Sequential(_average(), ConvNorm(768, 192, 1)),
    )


def _reduction_b() -> Branches:
    """17x17 to 1280 channels at 8x8."""
    return Branches(
        nn.Sequential(ConvNorm(768, 192, 1), ConvNorm(192, 320, 3, stride=2, valid=True)),
        nn.Sequential(
            ConvNorm(768, 192, 1),
            ConvNorm(192, 192, (1, 7)),
            ConvNorm(192, 192, (7, 1)),
            ConvNorm(192, 192, 3, stride=2, valid=True),
        ),
        nn.MaxPool2d(3, stride=2),
    )


def _inception_c(channels: int) -> Branches:
    """2048 channels at 8x8; two of the branches fork once more."""
    return Branches(
        ConvNorm(channels, 320, 1),
        nn.Sequential(ConvNorm(channels, 384, 1), _fork()),
        nn.Sequential(ConvNorm(channels, 448, 1), ConvNorm(448, 384, 3), _fork()),
        nn.Sequential(_average(), ConvNorm(channels, 192, 1)),
    )


def _fork() -> Branches:
    return Branches(ConvNorm(384, 384, (1, 3)), ConvNorm(384, 384, (3, 1)))


def _average() -> nn.AvgPool2d:
    return nn.AvgPool2d(3, stride=1, padding=1)
