"""VGG-16 and VGG-19 (Simonyan and Zisserman 2015, Table 1, columns D and E)."""

from __future__ import annotations

from torch import nn

from workbench.zoo.blocks import named


def vgg16(classes: int = 1000) -> nn.Sequential:
    """VGG-16 without batch normalisation: 13 convolutions, 3 linear layers."""
    return _vgg((2, 2, 3, 3, 3), classes)


def vgg19(classes: int = 1000) -> nn.Sequential:
    """VGG-19 without batch normalisation: 16 convolutions, 3 linear layers."""
    return _vgg((2, 2, 4, 4, 4), classes)


def _vgg(convolutions: tuple[int, ...], classes: int) -> nn.Sequential:
    """Blocks of 3x3 convolutions, each ended by a pooling.

    Deviation: the last map is pooled to 7x7 whatever the image's size, so that small images
    can be learnt too; at 224x224 this changes nothing.
    """
    features: dict[str, nn.Module] = {}
    width = 3
    for block, (channels, count) in enumerate(
        zip((64, 128, 256, 512, 512), convolutions, strict=True), start=1
    ):
        for index in range(1, count + 1):
            features[f"conv{block}_{index}"] = _convolution(width, channels)
            features[f"relu{block}_{index}"] = nn.ReLU()
            width = channels
        features[f"pool{block}"] = nn.MaxPool2d(2)
    classifier = named(
        flatten=nn.Flatten(),
        fc6=nn.Linear(512 * 7 * 7, 4096),
        relu6=nn.ReLU(),
        drop6=nn.Dropout(0.5),
        fc7=nn.Linear(4096, 4096),
        relu7=nn.ReLU(),
        drop7=nn.Dropout(0.5),
        fc8=nn.Linear(4096, classes),
    )
    return named(features=named(**features, pool=nn.AdaptiveAvgPool2d(7)), classifier=classifier)


def _convolution(channels_in: int, channels: int) -> nn.Conv2d:
    convolution = nn.Conv2d(channels_in, channels, 3, padding=1)
    # Without normalisation, PyTorch's default start lets the signal die out over 19 layers.
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    assert convolution.bias is not None
    nn.init.zeros_(convolution.bias)
    return convolution
