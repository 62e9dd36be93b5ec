"""LeNet-5 (LeCun, Bottou, Bengio and Haffner 1998, Sec. II)."""

from __future__ import annotations

from torch import nn


def lenet5(classes: int = 10) -> nn.Sequential:
    """LeNet-5 for 1x28x28 images: two convolutions, three linear layers; 61,706 parameters.

    Deviation: ReLU and max pooling instead of scaled tanh and trainable subsampling; the third
    layer connects every pair of channels; a linear output instead of radial basis functions.
    """
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
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
