"""Residual networks (He, Zhang, Ren and Sun 2016, Table 1 and Sec. 4.2)."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

Block = Callable[[int, int, int], "Residual"]  # channels in, width, stride


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


def resnet18(classes: int = 1000) -> nn.Sequential:
    """ResNet-18: two convolutions a block; 11,689,512 parameters."""
    return _imagenet(_basic, 1, (2, 2, 2, 2), classes)


def resnet34(classes: int = 1000) -> nn.Sequential:
    """ResNet-34: two convolutions a block; 21,797,672 parameters."""
    return _imagenet(_basic, 1, (3, 4, 6, 3), classes)


def resnet50(classes: int = 1000) -> nn.Sequential:
    """ResNet-50: bottleneck blocks of three convolutions; 25,557,032 parameters."""
    return _imagenet(_bottleneck, 4, (3, 4, 6, 3), classes)


def resnet152(classes: int = 1000) -> nn.Sequential:
    """ResNet-152: bottleneck blocks of three convolutions; 60,192,808 parameters."""
    return _imagenet(_bottleneck, 4, (3, 8, 36, 3), classes)


def resnet20_cifar(classes: int = 10) -> nn.Sequential:
    """ResNet-20 for 3x32x32 images (Sec. 4.2): 269,722 parameters with ten classes."""
    model = nn.Sequential()
    model.add_module("conv1", _conv_norm(3, 16, 3))
    model.add_module("relu", nn.ReLU())
    _add_stages(model, _basic_cifar, 1, ((16, 3), (32, 3), (64, 3)))
    _add_classifier(model, 64, classes)
    return model


def _imagenet(block: Block, expansion: int, blocks: tuple[int, ...], classes: int) -> nn.Sequential:
    model = nn.Sequential()
    model.add_module("conv1", _conv_norm(3, 64, 7, stride=2))
    model.add_module("relu", nn.ReLU())
    model.add_module("pool1", nn.MaxPool2d(3, stride=2, padding=1))
    stages = tuple(zip((64, 128, 256, 512), blocks, strict=True))
    _add_stages(model, block, expansion, stages)
    _add_classifier(model, 512 * expansion, classes)
    return model


def _add_stages(
    model: nn.Sequential, block: Block, expansion: int, stages: tuple[tuple[int, int], ...]
) -> None:
    """Append stages, each of a width and a number of blocks; all but the first halve the map."""
    channels_in = stages[0][0]
    for stage, (width, count) in enumerate(stages, start=1):
        for index in range(count):
            stride = 2 if stage > 1 and index == 0 else 1
            model.add_module(f"stage{stage}_{index + 1}", block(channels_in, width, stride))
            channels_in = width * expansion


def _add_classifier(model: nn.Sequential, channels: int, classes: int) -> None:
    model.add_module("pool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("fc", nn.Linear(channels, classes))


def _basic(channels_in: int, width: int, stride: int) -> Residual:
    return Residual(_basic_body(channels_in, width, stride), _shortcut(channels_in, width, stride))


def _basic_cifar(channels_in: int, width: int, stride: int) -> Residual:
    same = channels_in == width
    shortcut = nn.Identity() if same else PaddedShortcut(width - channels_in)
    return Residual(_basic_body(channels_in, width, stride), shortcut)


def _basic_body(channels_in: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        _conv_norm(channels_in, width, 3, stride), nn.ReLU(), _conv_norm(width, width, 3)
    )


def _bottleneck(channels_in: int, width: int, stride: int) -> Residual:
    """1x1, 3x3, 1x1 convolution. Deviation: the stride is the 3x3's, not the first 1x1's.

    The variant in use everywhere ("v1.5"), slightly more accurate and costlier.
    """
    body = nn.Sequential(
        _conv_norm(channels_in, width, 1),
        nn.ReLU(),
        _conv_norm(width, width, 3, stride),
        nn.ReLU(),
        _conv_norm(width, 4 * width, 1),
    )
    return Residual(body, _shortcut(channels_in, 4 * width, stride))


def _shortcut(channels_in: int, channels: int, stride: int) -> nn.Module:
    """Identity where shapes agree, else a 1x1 convolution (option B)."""
    if channels_in == channels and stride == 1:
        return nn.Identity()
    return _conv_norm(channels_in, channels, 1, stride)


def _conv_norm(channels_in: int, channels: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(channels_in, channels, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    pair = nn.Sequential()
    pair.add_module("conv", conv)
    pair.add_module("norm", nn.BatchNorm2d(channels))
    return pair
