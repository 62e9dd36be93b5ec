"""Inception networks: GoogLeNet (v1), v3 and v4.

GoogLeNet of Szegedy et al. 2015, Table 1; Inception-v3 of Szegedy, Vanhoucke, Ioffe, Shlens and
Wojna 2016, Table 1, as Keras has it: without the auxiliary classifier, and with the widths of the
published weights, which the paper leaves open; Inception-v4 of Szegedy, Ioffe, Vanhoucke and Alemi
2017, Figs. 3-9.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from workbench.zoo.blocks import Branches, Size, conv_norm, named

Conv = tuple[int, Size] | tuple[int, Size, int]
"""Channels and kernel; or with a stride, and then no padding."""


def _conv(channels_in: int, channels: int, kernel: Size, stride: int | None = None) -> nn.Module:
    padding = None if stride is None else 0
    return conv_norm(
        channels_in, channels, kernel, stride or 1, padding=padding, eps=0.001, relu=nn.ReLU()
    )


def _chain(channels: int, *convolutions: Conv) -> nn.Sequential:
    """Convolutions one after the other."""
    parts = []
    for convolution in convolutions:
        parts.append(_conv(channels, *convolution))
        channels = convolution[0]
    return nn.Sequential(*parts)


def _fork(channels: int, halves: int) -> Branches:
    return Branches(_conv(channels, halves, (1, 3)), _conv(channels, halves, (3, 1)))


class Inception(nn.Module):
    """GoogLeNet's four branches: 1x1; 1x1 then 3x3; 1x1 then 3x3; pooling then 1x1.

    The paper's third branch ends in a 5x5 convolution. Deviation: 3x3 here, as in the weights
    and the parameter count that are in use (6,624,904).
    """

    def __init__(
        self,
        channels: int,
        one: int,
        second: tuple[int, int],
        third: tuple[int, int],
        pooled: int,
    ) -> None:
        super().__init__()
        self.branch1 = _conv(channels, one, 1)
        self.branch2 = _chain(channels, (second[0], 1), (second[1], 3))
        self.branch3 = _chain(channels, (third[0], 1), (third[1], 3))
        pool = nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True)
        self.branch4 = nn.Sequential(pool, _conv(channels, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Join the branches' channels."""
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


def googlenet(classes: int = 1000) -> nn.Sequential:
    """GoogLeNet with batch normalisation and without auxiliary heads, for 3x224x224 images."""

    def halve(kernel: int) -> nn.MaxPool2d:
        return nn.MaxPool2d(kernel, stride=2, ceil_mode=True)

    return named(
        conv1=conv_norm(3, 64, 7, 2, eps=0.001, relu=nn.ReLU()),
        pool1=halve(3),
        conv2=_conv(64, 64, 1),
        conv3=_conv(64, 192, 3),
        pool3=halve(3),
        inception3a=Inception(192, 64, (96, 128), (16, 32), 32),
        inception3b=Inception(256, 128, (128, 192), (32, 96), 64),
        pool4=halve(3),
        inception4a=Inception(480, 192, (96, 208), (16, 48), 64),
        inception4b=Inception(512, 160, (112, 224), (24, 64), 64),
        inception4c=Inception(512, 128, (128, 256), (24, 64), 64),
        inception4d=Inception(512, 112, (144, 288), (32, 64), 64),
        inception4e=Inception(528, 256, (160, 320), (32, 128), 128),
        pool5=halve(2),
        inception5a=Inception(832, 256, (160, 320), (32, 128), 128),
        inception5b=Inception(832, 384, (192, 384), (48, 128), 128),
        **_classifier(1024, classes, dropout=0.2),
    )


def inception_v3(classes: int = 1000) -> nn.Sequential:
    """Inception-v3 for 3x299x299 images; 23,834,568 parameters."""

    def pooled(channels: int, width: int) -> nn.Sequential:
        return nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), _conv(channels, width, 1))

    def inception_a(channels: int, width: int) -> Branches:  # 35x35: 224 channels and `width`
        return Branches(
            _conv(channels, 64, 1),
            _chain(channels, (48, 1), (64, 5)),
            _chain(channels, (64, 1), (96, 3), (96, 3)),
            pooled(channels, width),
        )

    def inception_b(width: int) -> Branches:  # 17x17: 768 channels, with 7x7 in two halves
        seven, turned = (width, (7, 1)), (width, (1, 7))
        return Branches(
            _conv(768, 192, 1),
            _chain(768, (width, 1), turned, (192, (7, 1))),
            _chain(768, (width, 1), seven, turned, seven, (192, (1, 7))),
            pooled(768, 192),
        )

    def inception_c(channels: int) -> Branches:  # 8x8: 2048 channels; two branches fork
        return Branches(
            _conv(channels, 320, 1),
            nn.Sequential(_conv(channels, 384, 1), _fork(384, 384)),
            nn.Sequential(_conv(channels, 448, 1), _conv(448, 384, 3), _fork(384, 384)),
            pooled(channels, 192),
        )

    return named(
        stem=nn.Sequential(  # to 192x35x35
            *_chain(3, (32, 3, 2), (32, 3, 1), (64, 3)),
            nn.MaxPool2d(3, stride=2),
            *_chain(64, (80, 1), (192, 3, 1)),
            nn.MaxPool2d(3, stride=2),
        ),
        inception_a1=inception_a(192, 32),
        inception_a2=inception_a(256, 64),
        inception_a3=inception_a(288, 64),
        reduction_a=Branches(  # to 768x17x17
            _conv(288, 384, 3, 2),
            _chain(288, (64, 1), (96, 3), (96, 3, 2)),
            nn.MaxPool2d(3, stride=2),
        ),
        inception_b1=inception_b(128),
        inception_b2=inception_b(160),
        inception_b3=inception_b(160),
        inception_b4=inception_b(192),
        reduction_b=Branches(  # to 1280x8x8
            _chain(768, (192, 1), (320, 3, 2)),
            _chain(768, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2)),
            nn.MaxPool2d(3, stride=2),
        ),
        inception_c1=inception_c(1280),
        inception_c2=inception_c(2048),
        **_classifier(2048, classes, dropout=0.5),
    )


def inception_v4(classes: int = 1000) -> nn.Sequential:
    """Inception-v4 for 3x299x299 images; 42,679,816 parameters."""

    def pooled(channels: int, width: int) -> nn.Sequential:
        average = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
        return nn.Sequential(average, _conv(channels, width, 1))

    def inception_a() -> Branches:  # Fig. 4: 384 channels at 35x35
        return Branches(
            pooled(384, 96),
            _conv(384, 96, 1),
            _chain(384, (64, 1), (96, 3)),
            _chain(384, (64, 1), (96, 3), (96, 3)),
        )

    def inception_b() -> Branches:  # Fig. 5: 1024 channels at 17x17
        return Branches(
            pooled(1024, 128),
            _conv(1024, 384, 1),
            _chain(1024, (192, 1), (224, (1, 7)), (256, (7, 1))),
            _chain(1024, (192, 1), (192, (1, 7)), (224, (7, 1)), (224, (1, 7)), (256, (7, 1))),
        )

    def inception_c() -> Branches:  # Fig. 6: 1536 channels at 8x8; two branches fork
        return Branches(
            pooled(1536, 256),
            _conv(1536, 256, 1),
            nn.Sequential(_conv(1536, 384, 1), _fork(384, 256)),
            nn.Sequential(*_chain(1536, (384, 1), (448, (1, 3)), (512, (3, 1))), _fork(512, 256)),
        )

    return named(
        stem=nn.Sequential(  # Fig. 3: to 384x35x35
            *_chain(3, (32, 3, 2), (32, 3, 1), (64, 3)),
            Branches(nn.MaxPool2d(3, stride=2), _conv(64, 96, 3, 2)),
            Branches(
                _chain(160, (64, 1), (96, 3, 1)),
                _chain(160, (64, 1), (64, (7, 1)), (64, (1, 7)), (96, 3, 1)),
            ),
            Branches(_conv(192, 192, 3, 2), nn.MaxPool2d(3, stride=2)),
        ),
        **{f"inception_a{number}": inception_a() for number in range(1, 5)},
        reduction_a=Branches(  # Fig. 7 with k=192, l=224, m=256, n=384: to 1024x17x17
            nn.MaxPool2d(3, stride=2),
            _conv(384, 384, 3, 2),
            _chain(384, (192, 1), (224, 3), (256, 3, 2)),
        ),
        **{f"inception_b{number}": inception_b() for number in range(1, 8)},
        reduction_b=Branches(  # Fig. 8: to 1536x8x8
            nn.MaxPool2d(3, stride=2),
            _chain(1024, (192, 1), (192, 3, 2)),
            _chain(1024, (256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3, 2)),
        ),
        **{f"inception_c{number}": inception_c() for number in range(1, 4)},
        **_classifier(1536, classes, dropout=0.2),
    )


def _classifier(channels: int, classes: int, dropout: float) -> dict[str, nn.Module]:
    return {
        "pool": nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten(),
        "dropout": nn.Dropout(dropout),
        "fc": nn.Linear(channels, classes),
    }
