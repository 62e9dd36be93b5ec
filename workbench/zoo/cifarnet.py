"""CifarNet, the small network that OLPB trains (Zhao et al., Sec. VII, Table I)."""

from __future__ import annotations

from torch import nn


def cifarnet(classes: int = 10) -> nn.Sequential:
    """CifarNet for 3x32x32 images; 1,250,858 parameters.

    Four convolutions, two poolings, two linear layers, as the paper states.

    Deviation: widths are not stated. Those here, of Owl's own example for CIFAR-10, give the 17
    layers and 4.8 MB (of 2^20 bytes) of Table I.
    """
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.1),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.1),
        nn.Flatten(),
        nn.Linear(2304, 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )
