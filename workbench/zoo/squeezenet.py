"""SqueezeNet 1.0 (Iandola et al. 2016, Table 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from workbench.zoo.blocks import named


class Fire(nn.Module):
    """A 1x1 convolution squeezes channels; a 1x1 and a 3x3 beside each other expand them."""

    def __init__(self, channels_in: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(_started(nn.Conv2d(channels_in, squeezed, 1)), nn.ReLU())
        self.expand1 = nn.Sequential(_started(nn.Conv2d(squeezed, expanded, 1)), nn.ReLU())
        wide = nn.Conv2d(squeezed, expanded, 3, padding=1)
        self.expand3 = nn.Sequential(_started(wide), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """Join the channels of both expansions."""
        x = self.squeeze(x)
        return torch.cat([self.expand1(x), self.expand3(x)], 1)


def squeezenet(classes: int = 1000) -> nn.Sequential:
    """SqueezeNet 1.0 for 3x224x224 images, without bypasses; 1,248,424 parameters."""
    return _squeezenet(nn.Conv2d(3, 96, 7, stride=2), classes)


def squeezenet_cifar(classes: int = 10) -> nn.Sequential:
    """SqueezeNet 1.0 for 3x32x32 images; 729,034 parameters with ten classes.

    As `squeezenet`, but the first convolution is 3x3 with stride 1 and padding instead of 7x7
    with stride 2, so that the fire modules see maps of 16x16, 8x8 and 4x4 pixels.
    """
    return _squeezenet(nn.Conv2d(3, 96, 3, padding=1), classes)


def _squeezenet(stem: nn.Conv2d, classes: int) -> nn.Sequential:
    """Deviation: He's initialisation, as in the weights in use, instead of Glorot's."""
    _started(stem)
    classifier = nn.Conv2d(512, classes, 1)
    nn.init.normal_(classifier.weight, std=0.01)
    assert classifier.bias is not None
    nn.init.zeros_(classifier.bias)
    return named(
        conv1=stem,
        relu1=nn.ReLU(),
        pool1=_halve(),
        fire2=Fire(96, 16, 64),
        fire3=Fire(128, 16, 64),
        fire4=Fire(128, 32, 128),
        pool4=_halve(),
        fire5=Fire(256, 32, 128),
        fire6=Fire(256, 48, 192),
        fire7=Fire(384, 48, 192),
        fire8=Fire(384, 64, 256),
        pool8=_halve(),
        fire9=Fire(512, 64, 256),
        dropout=nn.Dropout(0.5),
        conv10=classifier,
        relu10=nn.ReLU(),
        pool10=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),
    )


def _started(conv: nn.Conv2d) -> nn.Conv2d:
    nn.init.kaiming_uniform_(conv.weight)
    assert conv.bias is not None
    nn.init.zeros_(conv.bias)
    return conv


def _halve() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)
