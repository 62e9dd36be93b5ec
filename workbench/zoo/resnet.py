"""Residual networks (He, Zhang, Ren and Sun 2016, Table 1 and Sec. 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from workbench.zoo.blocks import conv_norm, named

_conv_norm = partial(conv_norm, fan_out=True)


class Residual(nn.Module):
    """ReLU of the sum of a body and its shortcut."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Add body and shortcut."""
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


class PaddedShortcut(nn.Module):
    """The shortcut without parameters (option A): every other pixel, new channels zero."""

    def __init__(self, new_channels: int) -> None:
        super().__init__()
        self.new_channels = new_channels

    def forward(self, x: Tensor) -> Tensor:
        """Halve the map and widen its channels."""
        before = self.new_channels // 2
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, before, self.new_channels - before))


Block = Callable[[int, int, int], Residual]  # channels in, width, stride


def basic(channels: int, width: int, stride: int) -> Residual:
    """Two 3x3 convolutions."""
    return Residual(_basic_body(channels, width, stride), _shortcut(channels, width, stride))


def basic_cifar(channels: int, width: int, stride: int) -> Residual:
    """Two 3x3 convolutions, and a shortcut without parameters."""
    body = _basic_body(channels, width, stride)
    same = channels == width
    return Residual(body, nn.Identity() if same else PaddedShortcut(width - channels))


def _basic_body(channels: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        _conv_norm(channels, width, 3, stride), nn.ReLU(), _conv_norm(width, width, 3)
    )


def bottleneck(channels: int, width: int, stride: int) -> Residual:
    """1x1, 3x3, 1x1 convolution. Deviation: the stride is the 3x3's, not the first 1x1's.

    The variant in use everywhere ("v1.5"), slightly more accurate and costlier.
    """
    body = nn.Sequential(
        _conv_norm(channels, width, 1),
        nn.ReLU(),
        _conv_norm(width, width, 3, stride),
        nn.ReLU(),
        _conv_norm(width, 4 * width, 1),
    )
    return Residual(body, _shortcut(channels, 4 * width, stride))


def _shortcut(channels_in: int, channels: int, stride: int) -> nn.Module:
    """Identity where shapes agree, else a 1x1 convolution (option B)."""
    same = channels_in == channels and stride == 1
    return nn.Identity() if same else _conv_norm(channels_in, channels, 1, stride)


def resnet18(classes: int = 1000) -> nn.Sequential:
    """ResNet-18: two convolutions a block; 11,689,512 parameters."""
    return _imagenet(basic, 1, (2, 2, 2, 2), classes)


def resnet34(classes: int = 1000) -> nn.Sequential:
    """ResNet-34: two convolutions a block; 21,797,672 parameters."""
    return _imagenet(basic, 1, (3, 4, 6, 3), classes)


def resnet50(classes: int = 1000) -> nn.Sequential:
    """ResNet-50: bottleneck blocks of three convolutions; 25,557,032 parameters."""
    return _imagenet(bottleneck, 4, (3, 4, 6, 3), classes)


def resnet152(classes: int = 1000) -> nn.Sequential:
    """ResNet-152: bottleneck blocks of three convolutions; 60,192,808 parameters."""
    return _imagenet(bottleneck, 4, (3, 8, 36, 3), classes)


def resnet20_cifar(classes: int = 10) -> nn.Sequential:
    """ResNet-20 for 3x32x32 images (Sec. 4.2): 269,722 parameters with ten classes."""
    stem = {"conv1": _conv_norm(3, 16, 3), "relu": nn.ReLU()}
    return _resnet(stem, basic_cifar, 1, ((16, 3), (32, 3), (64, 3)), classes)


def _imagenet(block: Block, expansion: int, blocks: tuple[int, ...], classes: int) -> nn.Sequential:
    pool = nn.MaxPool2d(3, stride=2, padding=1)
    stem = {"conv1": _conv_norm(3, 64, 7, 2), "relu": nn.ReLU(), "pool1": pool}
    stages = tuple(zip((64, 128, 256, 512), blocks, strict=True))
    return _resnet(stem, block, expansion, stages, classes)


def _resnet(
    stem: dict[str, nn.Module],
    block: Block,
    expansion: int,
    stages: tuple[tuple[int, int], ...],
    classes: int,
) -> nn.Sequential:
    """Stages have a width and a number of blocks each; all but the first halve the map."""
    parts, channels = dict(stem), stages[0][0]
    for stage, (width, count) in enumerate(stages, start=1):
        for index in range(1, count + 1):
            stride = 2 if stage > 1 and index == 1 else 1
            parts[f"stage{stage}_{index}"] = block(channels, width, stride)
            channels = width * expansion
    classifier = nn.Linear(channels, classes)
    return named(**parts, pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=classifier)
