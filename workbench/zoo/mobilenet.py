"""MobileNet (Howard et al. 2017, Table 1) and MobileNetV2 (Sandler et al. 2018, Table 2)."""

from __future__ import annotations

from torch import Tensor, nn

from workbench.zoo.blocks import conv_norm, named

BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2),
          (1024, 1))  # fmt: skip
"""Channels and stride of each depthwise separable convolution of MobileNet."""
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, and stride of the first block, of MobileNetV2."""


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


def _mobilenet_v1(
    stem_stride: int, blocks: tuple[tuple[int, int], ...], classes: int
) -> nn.Sequential:
    model = named(conv1=conv_norm(3, 32, 3, stem_stride, relu=nn.ReLU()))
    width = 32
    for number, (channels, stride) in enumerate(blocks, start=1):
        block = named(
            depthwise=conv_norm(width, width, 3, stride, groups=width, relu=nn.ReLU()),
            pointwise=conv_norm(width, channels, 1, relu=nn.ReLU()),
        )
        model.add_module(f"block{number}", block)
        width = channels
    model.add_module("pool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("fc", nn.Linear(width, classes))
    return model


class InvertedResidual(nn.Module):
    """1x1 widens, 3x3 works on each channel by itself, 1x1 narrows without ReLU; plus the input.

    The input is added where shapes agree; where `expansion` is 1, nothing widens.
    """

    def __init__(self, channels_in: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels_in * expansion
        self.body = nn.Sequential()
        if expansion > 1:
            expand = conv_norm(channels_in, wide, 1, fan_out=True, relu=nn.ReLU6())
            self.body.add_module("expand", expand)
        depthwise = conv_norm(wide, wide, 3, stride, groups=wide, fan_out=True, relu=nn.ReLU6())
        self.body.add_module("depthwise", depthwise)
        self.body.add_module("project", conv_norm(wide, channels, 1, fan_out=True))
        self.adds = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        """Add the input where shapes agree."""
        out: Tensor = self.body(x)
        return x + out if self.adds else out


def mobilenet_v2(classes: int = 1000) -> nn.Sequential:
    """MobileNetV2 of width 1 for 3x224x224 images; 3,504,872 parameters."""
    return _mobilenet_v2(2, STAGES, classes)


def mobilenet_v2_cifar(classes: int = 10) -> nn.Sequential:
    """MobileNetV2 of width 1 for 3x32x32 images; 2,236,682 parameters with ten classes.

    As `mobilenet_v2`, but the first convolution and the stage of 24 channels have stride 1
    instead of 2: the last maps have 4x4 pixels, which would otherwise be a single one.
    """
    stages = tuple((*stage[:3], 1 if stage[1] == 24 else stage[3]) for stage in STAGES)
    return _mobilenet_v2(1, stages, classes)


def _mobilenet_v2(
    stem_stride: int, stages: tuple[tuple[int, int, int, int], ...], classes: int
) -> nn.Sequential:
    model = named(conv1=conv_norm(3, 32, 3, stem_stride, fan_out=True, relu=nn.ReLU6()))
    width = 32
    for number, (expansion, channels, blocks, first_stride) in enumerate(stages, start=1):
        for index in range(1, blocks + 1):
            stride = first_stride if index == 1 else 1
            block = InvertedResidual(width, channels, stride, expansion)
            model.add_module(f"stage{number}_{index}", block)
            width = channels
    classifier = nn.Linear(1280, classes)
    nn.init.normal_(classifier.weight, std=0.01)
    nn.init.zeros_(classifier.bias)
    model.add_module("conv2", conv_norm(width, 1280, 1, fan_out=True, relu=nn.ReLU6()))
    model.add_module("pool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("dropout", nn.Dropout(0.2))
    model.add_module("fc", classifier)
    return model
