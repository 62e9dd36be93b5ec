"""Cipher, the network of Ako (Watcharapichat et al. 2016) that DLion trains (Sec. 5.1.1)."""

from __future__ import annotations

from torch import nn


def cipher(classes: int = 10) -> nn.Sequential:
    """Cipher for 3x32x32 images: three convolutions, two linear layers; 1,302,410 parameters.

    10, 20 and 100 kernels and 200 neurons, 5.2 MB with ten classes, as DLion (Hong and Chandra
    2021, Sec. 5.1.1) states: 5 MB.

    Deviation: kernels are 3x3 with padding, and maps are pooled after the first and the second
    convolution. The paper states none of it; pooled after the third, too, the model has 1.4 MB.
    Its "28x28 gray-scale" images give 4.0 MB: `cipher_grey`.
    """
    return _cipher((3, 32), (10, 20, 100), 200, classes)


def cipher_grey(classes: int = 10) -> nn.Sequential:
    """Cipher for 1x28x28 images, as `cipher` but for size and colours; 1,002,230 parameters."""
    return _cipher((1, 28), (10, 20, 100), 200, classes)


def cipher_small(classes: int = 10) -> nn.Sequential:
    """Cipher for 1x8x8 images with 8, 16 and 32 kernels and 32 neurons; 10,346 parameters.

    Learns in Cipher's place where an experiment is to take minutes.
    """
    return _cipher((1, 8), (8, 16, 32), 32, classes)


def _cipher(
    image: tuple[int, int], kernels: tuple[int, int, int], neurons: int, classes: int
) -> nn.Sequential:
    """`image` is the channels and the height of a square one."""
    channels, height = image
    first, second, third = kernels
    return nn.Sequential(
        nn.Conv2d(channels, first, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(second, third, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(third * (height // 4) ** 2, neurons),
        nn.ReLU(),
        nn.Linear(neurons, classes),
    )
