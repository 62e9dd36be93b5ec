"""LeNet-5 (LeCun, Bottou, Bengio and Haffner 1998, Sec. II)."""

from __future__ import annotations

from torch import nn


def lenet5(classes: int = 10) -> nn.Sequential:
    """LeNet-5 for 1x28x28 images: two convolutions, three linear layers; 61,706 parameters.

    Deviation: ReLU and max pooling instead of scaled tanh and trainable subsampling; the third
    layer connects every pair of channels; a linear output instead of radial basis functions.
    """
    return _lenet5(classes, channels=1, padding=2)


def lenet5_cifar(classes: int = 10) -> nn.Sequential:
    """LeNet-5 for 3x32x32 images, as `lenet5` but for three colours; 62,006 parameters.

    The images have the size that LeNet-5 was drawn for, so the first layer needs no padding.
    """
    return _lenet5(classes, channels=3, padding=0)


def _lenet5(classes: int, channels: int, padding: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 5 * 5, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )
