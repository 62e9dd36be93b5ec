"""Small convolutional networks: LeNet-5, and those that the papers train.

LeNet-5 of LeCun, Bottou, Bengio and Haffner 1998, Sec. II; CifarNet of OLPB (Zhao et al., Sec. VII,
Table I); Cipher, the network of Ako (Watcharapichat et al. 2016) that DLion trains (Hong and
Chandra 2021, Sec. 5.1.1).
"""

from __future__ import annotations

from itertools import pairwise

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
        *_conv(channels, 6, kernel=5, padding=padding),
        nn.MaxPool2d(2),
        *_conv(6, 16, kernel=5, padding=0),
        nn.MaxPool2d(2),
        *_linear(16 * 5 * 5, 120, 84, classes),
    )


def cifarnet(classes: int = 10) -> nn.Sequential:
    """CifarNet for 3x32x32 images; 1,250,858 parameters.

    Four convolutions, two poolings, two linear layers, as the paper states.

    Deviation: widths are not stated. Those here, of Owl's own example for CIFAR-10, give the 17
    layers and 4.8 MB (of 2^20 bytes) of Table I.
    """
    return nn.Sequential(
        *_conv(3, 32),
        *_conv(32, 32, padding=0),
        nn.MaxPool2d(2),
        nn.Dropout(0.1),
        *_conv(32, 64),
        *_conv(64, 64, padding=0),
        nn.MaxPool2d(2),
        nn.Dropout(0.1),
        *_linear(2304, 512, classes),
    )


def cipher(classes: int = 10) -> nn.Sequential:
    """Cipher for 3x32x32 images: three convolutions, two linear layers; 1,302,410 parameters.

    10, 20 and 100 kernels and 200 neurons, 5.2 MB with ten classes, as DLion states: 5 MB.

    Deviation: kernels are 3x3 with padding, and maps are pooled after the first and the second
    convolution. The paper states none of it; pooled after the third, too, the model has 1.4 MB.
    Its "28x28 gray-scale" images give 4.0 MB: `cipher_grey`.
    """
    return _cipher(3, 32, (10, 20, 100), 200, classes)


def cipher_grey(classes: int = 10) -> nn.Sequential:
    """Cipher for 1x28x28 images, as `cipher` but for size and colours; 1,002,230 parameters."""
    return _cipher(1, 28, (10, 20, 100), 200, classes)


def cipher_small(classes: int = 10) -> nn.Sequential:
    """Cipher for 1x8x8 images with 8, 16 and 32 kernels and 32 neurons; 10,346 parameters.

    Learns in Cipher's place where an experiment is to take minutes.
    """
    return _cipher(1, 8, (8, 16, 32), 32, classes)


def _cipher(
    channels: int, height: int, kernels: tuple[int, int, int], neurons: int, classes: int
) -> nn.Sequential:
    first, second, third = kernels
    return nn.Sequential(
        *_conv(channels, first),
        nn.MaxPool2d(2),
        *_conv(first, second),
        nn.MaxPool2d(2),
        *_conv(second, third),
        *_linear(third * (height // 4) ** 2, neurons, classes),
    )


def _conv(channels_in: int, channels: int, kernel: int = 3, padding: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(channels_in, channels, kernel, padding=padding), nn.ReLU()]


def _linear(*widths: int) -> list[nn.Module]:
    """Linear layers of these widths with ReLU between them, on maps as vectors."""
    layers: list[nn.Module] = [nn.Flatten()]
    for width_in, width in pairwise(widths):
        layers += [nn.Linear(width_in, width), nn.ReLU()]
    return layers[:-1]
