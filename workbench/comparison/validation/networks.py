"""Layers of the networks that others measured: trained parameters and forward FLOPs.

First layer first. FLOPs count relative to each other alone: they share a step's measured seconds
among its layers. They are from the networks' published shapes; ResNets are those of the zoo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from workbench.profiles import profile_model
from workbench.sharding.collective_costs import Bucket, buckets
from workbench.utils.checks import choose


class Layer(NamedTuple):
    """Trained parameters, and FLOPs relative to other layers."""

    parameters: float
    flops: float


def _convolution(channels: int, filters: int, kernel: int, side: int) -> Layer:
    parameters = channels * filters * kernel**2
    return Layer(parameters, parameters * side**2)


def _yolov3(classes: int = 20) -> list[Layer]:
    """Darknet-53 and three heads at 416 x 416, without batch normalisation."""
    layers = [_convolution(3, 32, 3, 416)]
    side, width = 416, 32
    for blocks in (1, 2, 8, 8, 4):
        side //= 2
        layers.append(_convolution(width, 2 * width, 3, side))
        width *= 2
        for _ in range(blocks):
            layers.append(_convolution(width, width // 2, 1, side))
            layers.append(_convolution(width // 2, width, 3, side))
    channels = width
    for filters, grid in ((512, 13), (256, 26), (128, 52)):
        for _ in range(3):
            layers.append(_convolution(channels, filters, 1, grid))
            layers.append(_convolution(filters, 2 * filters, 3, grid))
            channels = 2 * filters
        layers.append(_convolution(channels, 3 * (classes + 5), 1, grid))
        layers.append(_convolution(filters, filters // 2, 1, grid))
        channels = filters // 2 + filters
    return layers[:-1]


def _resnet(name: str) -> list[Layer]:
    table = profile_model(name).table
    return [Layer(size / 4, flops) for size, flops in table["param_bytes", "forward_flops"].rows()]


def _resnet18_cifar() -> list[Layer]:
    return [*_resnet("resnet18")[:-1], Layer(513 * 10, 1)]


def _deepspeech2() -> list[Layer]:
    """Two convolutions, five bidirectional GRU of 800 and the alphabet."""
    return [
        Layer(0.25e6, 0.15),
        Layer(10.15e6, 0.2),
        *[Layer(7.69e6, 0.16)] * 4,
        Layer(23e3, 0.01),
    ]


def _transformer() -> list[Layer]:
    """Six encoders and six decoders of 512, and embeddings of Multi30k's words."""
    encoder, decoder = Layer(3.15e6, 3.15), Layer(4.2e6, 4.2)
    words = Layer(2_909 * 512, 0), Layer(3_149 * 512, 0)
    logits = Layer(0, 1.6)  # by the weights of the second embedding
    return [words[0], *[encoder] * 6, words[1], *[decoder] * 6, logits]


NETWORKS: Mapping[str, Callable[[], list[Layer]]] = {
    "bert": lambda: [Layer(23.8e6, 0), *[Layer(7.09e6, 1)] * 12, Layer(0.6e6, 0.01)],
    "cifar10": _resnet18_cifar,
    "deepspeech2": _deepspeech2,
    "imagenet": lambda: _resnet("resnet50"),
    "ncf": lambda: [Layer(1.56e6, 0.6), Layer(33e3, 0.3), Layer(10e3, 0.1)],
    "yolov3": _yolov3,
    "ResNet-18": _resnet18_cifar,
    "ResNet-50": lambda: _resnet("resnet50"),
    "Transformer": _transformer,
    "LM": lambda: [Layer(6.66e6, 0), *[Layer(0.32e6, 0.64)] * 2, Layer(6.69e6, 6.69)],
}
"""Networks by the names that AdaptDL and Gavel give their jobs."""


@cache
def gradient_buckets(network: str) -> Sequence[Bucket]:
    """Buckets of a network's gradient, four bytes a parameter."""
    layers = choose("network", network, NETWORKS)()
    sizes = [4 * layer.parameters for layer in layers]
    return tuple(buckets(sizes, [layer.flops for layer in layers]))
