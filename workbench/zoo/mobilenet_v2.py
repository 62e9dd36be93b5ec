"""MobileNetV2 (Sandler et al. 2018, Table 2)."""

from __future__ import annotations

from torch import Tensor, nn

# Expansion, channels, blocks, stride of the first block.
Stage = tuple[int, int, int, int]

STAGES: tuple[Stage, ...] = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """1x1 widens, 3x3 works on each channel by itself, 1x1 narrows without ReLU; plus the input.

    The input is added where shapes agree; where `expansion` is 1, nothing widens.
    """

    def __init__(self, channels_in: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels_in * expansion
        self.body = nn.Sequential()
        if expansion > 1:
            self.body.add_module("expand", _conv_norm(channels_in, wide, 1))
        self.body.add_module("depthwise", _conv_norm(wide, wide, 3, stride, groups=wide))
        self.body.add_module("project", _conv_norm(wide, channels, 1, relu=False))
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


def _mobilenet_v2(stem_stride: int, stages: tuple[Stage, ...], classes: int) -> nn.Sequential:
    model = nn.Sequential()
    model.add_module("conv1", _conv_norm(3, 32, 3, stem_stride))
    channels_in = 32
    for number, (expansion, channels, blocks, first_stride) in enumerate(stages, start=1):
        for index in range(blocks):
            stride = first_stride if index == 0 else 1
            block = InvertedResidual(channels_in, channels, stride, expansion)
            model.add_module(f"stage{number}_{index + 1}", block)
            channels_in = channels
    classifier = nn.Linear(1280, classes)
    nn.init.normal_(classifier.weight, std=0.01)
    nn.init.zeros_(classifier.bias)
    model.add_module("conv2", _conv_norm(channels_in, 1280, 1))
    model.add_module("pool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("dropout", nn.Dropout(0.2))
    model.add_module("fc", classifier)
    return model


def _conv_norm(
    channels_in: int,
    channels: int,
    kernel: int,
    stride: int = 1,
    *,
    groups: int = 1,
    relu: bool = True,
) -> nn.Sequential:
    conv = nn.Conv2d(
        channels_in, channels, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )
    nn.init.kaiming_normal_(conv.weight, mode="fan_out")
    parts = nn.Sequential()
    parts.add_module("conv", conv)
    parts.add_module("norm", nn.BatchNorm2d(channels))
    if relu:
        parts.add_module("relu", nn.ReLU6())
    return parts
