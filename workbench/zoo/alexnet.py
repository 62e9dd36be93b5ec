"""AlexNet in its one-tower form (Krizhevsky 2014, "One weird trick", Sec. 4)."""

from __future__ import annotations

from torch import nn


def alexnet(classes: int = 1000) -> nn.Sequential:
    """AlexNet for 3x224x224 images: five convolutions, three linear layers.

    Deviation: without local response normalisation, and the last map is pooled to 6x6 whatever
    the image's size, as today's implementations do; 61,100,840 parameters.
    """
    features = nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.AdaptiveAvgPool2d(6),
    )
    classifier = nn.Sequential(
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(256 * 6 * 6, 4096),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, classes),
    )
    model = nn.Sequential()
    model.add_module("features", features)
    model.add_module("classifier", classifier)
    return model


def alexnet_tiny(classes: int = 200) -> nn.Sequential:
    """AlexNet for Tiny ImageNet, 3x64x64 images of 200 classes; 57,823,240 parameters.

    The layers are those of `alexnet`: its last map, here of a single pixel, is spread over 6x6.
    """
    return alexnet(classes)
