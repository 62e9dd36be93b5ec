"""MobileNet (Howard et al. 2017, Table 1)."""

from __future__ import annotations

from torch import nn

# Channels and stride of each depthwise separable convolution.
Block = tuple[int, int]

BLOCKS: tuple[Block, ...] = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)


def mobilenet_v1(classes: int = 1000) -> nn.Sequential:
    """MobileNet of width 1 for 3x224x224 images, 28 layers; 4,231,976 parameters.

    Deviation: the last depthwise convolution has stride 1. Table 1 prints 2, but its maps keep
    7x7 pixels.
    """
    return _mobilenet_v1(2, BLOCKS, classes)


def mobilenet_v1_cifar(classes: int = 10) -> nn.Sequential:
    """MobileNet of width 1 for 3x32x32 images; 3,217,226 parameters with ten classes.

    As `mobilenet_v1`, but the first convolution and the first block of 128 channels have stride 1
    instead of 2: the last maps have 4x4 pixels, as those of `mobilenet_v2_cifar`.
    """
    blocks = tuple((channels, 1 if channels == 128 else stride) for channels, stride in BLOCKS)
    return _mobilenet_v1(1, blocks, classes)


def _mobilenet_v1(stem_stride: int, blocks: tuple[Block, ...], classes: int) -> nn.Sequential:
    model = nn.Sequential()
    model.add_module("conv1", _conv_norm(3, 32, 3, stem_stride))
    channels_in = 32
    for number, (channels, stride) in enumerate(blocks, start=1):
        block = nn.Sequential()
        depthwise = _conv_norm(channels_in, channels_in, 3, stride, groups=channels_in)
        block.add_module("depthwise", depthwise)
        block.add_module("pointwise", _conv_norm(channels_in, channels, 1))
        model.add_module(f"block{number}", block)
        channels_in = channels
    model.add_module("pool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("fc", nn.Linear(channels_in, classes))
    return model


def _conv_norm(
    channels_in: int, channels: int, kernel: int, stride: int = 1, *, groups: int = 1
) -> nn.Sequential:
    conv = nn.Conv2d(
        channels_in, channels, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )
    parts = nn.Sequential()
    parts.add_module("conv", conv)
    parts.add_module("norm", nn.BatchNorm2d(channels))
    parts.add_module("relu", nn.ReLU())
    return parts
