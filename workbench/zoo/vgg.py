"""VGG-16 and VGG-19 (Simonyan and Zisserman 2015, Table 1, columns D and E)."""

from __future__ import annotations

from torch import nn

_CHANNELS = (64, 128, 256, 512, 512)


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
    features = nn.Sequential()
    channels_in = 3
    for block, (channels, count) in enumerate(zip(_CHANNELS, convolutions, strict=True), start=1):
        for index in range(1, count + 1):
            features.add_module(f"conv{block}_{index}", _convolution(channels_in, channels))
            features.add_module(f"relu{block}_{index}", nn.ReLU())
            channels_in = channels
        features.add_module(f"pool{block}", nn.MaxPool2d(2))
    features.add_module("pool", nn.AdaptiveAvgPool2d(7))

    classifier = nn.Sequential()
    classifier.add_module("flatten", nn.Flatten())
    classifier.add_module("fc6", nn.Linear(512 * 7 * 7, 4096))
    classifier.add_module("relu6", nn.ReLU())
    classifier.add_module("drop6", nn.Dropout(0.5))
    classifier.add_module("fc7", nn.Linear(4096, 4096))
    classifier.add_module("relu7", nn.ReLU())
    classifier.add_module("drop7", nn.Dropout(0.5))
    classifier.add_module("fc8", nn.Linear(4096, classes))

    model = nn.Sequential()
    model.add_module("features", features)
    model.add_module("classifier", classifier)
    return model


def _convolution(channels_in: int, channels: int) -> nn.Conv2d:
    convolution = nn.Conv2d(channels_in, channels, 3, padding=1)
    # Without normalisation, PyTorch's default start lets the signal die out over 19 layers.
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    assert convolution.bias is not None
    nn.init.zeros_(convolution.bias)
    return convolution
