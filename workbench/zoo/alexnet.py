"""AlexNet in its one-tower form (Krizhevsky 2014, "One weird trick", Sec. 4)."""

from __future__ import annotations

from torch import nn

from workbench.zoo.blocks import named


def alexnet(classes: int = 1000) -> nn.Sequential:
    """AlexNet for 3x224x224 images: five convolutions, three linear layers.

    Deviation: without local response normalisation, and the last map is pooled to 6x6 whatever
    the image's size, as today's implementations do; 61,100,840 parameters.
    """
    first = nn.Conv2d(3, 64, 11, stride=4, padding=2)
    pools = (nn.MaxPool2d(3, stride=2), nn.AdaptiveAvgPool2d(6))
    return _alexnet(first, (192, 384, 256, 256), classes, *pools)


def alexnet_tiny(classes: int = 200) -> nn.Sequential:
    """AlexNet for Tiny ImageNet, 3x64x64 images of 200 classes; 57,823,240 parameters.

    The layers are those of `alexnet`: its last map, here of a single pixel, is spread over 6x6.
    """
    return alexnet(classes)


def alexnet_cifar(classes: int = 10) -> nn.Sequential:
    """AlexNet for 3x32x32 images; 58,322,314 parameters with ten classes.

    The maps of the original's two towers in one (96, 256, 384, 384, 256; Krizhevsky, Sutskever
    and Hinton 2012), every pair of them connected. The first convolution stays 11x11 with stride
    4; the last pooling is left out, since the map is a single pixel by then, which is spread over
    6x6 as in `alexnet_tiny`.

    Of the usual forms with ten outputs this comes nearest to the 61.5 million that are reported
    for AlexNet on CIFAR-10 (EdgeGossip, Han et al. 2021, Sec. 4.1). None has that number: with
    1,000 outputs this form has 62,378,344 and `alexnet` 61,100,840.
    """
    first = nn.Conv2d(3, 96, 11, stride=4, padding=2)
    return _alexnet(first, (256, 384, 384, 256), classes, nn.AdaptiveAvgPool2d(6))


def alexnet_small(classes: int = 10) -> nn.Sequential:
    """AlexNet for 3x32x32 images with an eighth of its maps; 113,850 parameters with ten classes.

    The layers of `alexnet_cifar` with 12, 32, 48, 48 and 32 maps and 128 hidden units, for
    learning in seconds on a laptop. The first convolution is 5x5 with stride 2, so that 3x3 pixels
    reach the linear layers, and a quarter of so few units is dropped, not half of them.

    Weights are drawn as He et al. 2015 (Eq. 10) derive for ReLU, and biases are 0: drawn by
    PyTorch's default they get smaller from layer to layer, and so narrow a net learns nothing for
    thousands of steps.
    """
    first = nn.Conv2d(3, 12, 5, stride=2, padding=2)
    maps = (32, 48, 48, 32)
    model = _alexnet(first, maps, classes, inputs=32 * 3 * 3, hidden=128, dropped=0.25)
    for part in model.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return model


def _alexnet(
    first: nn.Conv2d,
    maps: tuple[int, int, int, int],
    classes: int,
    *pools: nn.Module,
    inputs: int = 256 * 6 * 6,
    hidden: int = 4096,
    dropped: float = 0.5,
) -> nn.Sequential:
    """The `first` convolution, then four with these numbers of maps; the first two are pooled."""
    second, third, fourth, fifth = maps
    features = nn.Sequential(
        first,
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(first.out_channels, second, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(second, third, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(third, fourth, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(fourth, fifth, 3, padding=1),
        nn.ReLU(),
        *pools,
    )
    classifier = nn.Sequential(
        nn.Flatten(),
        nn.Dropout(dropped),
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Dropout(dropped),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )
    return named(features=features, classifier=classifier)
