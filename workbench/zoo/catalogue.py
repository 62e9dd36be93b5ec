"""The names of the zoo, with what is known of a model before PyTorch is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.utils.checks import choose

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Model:
    """An architecture of the zoo.

    Attributes
    ----------
    factory
        Makes the module, randomly initialised; ``factory(classes=10)`` for other data.
    input_shape
        Of one sample: channels, height, width; or the length of a text.
    classes
        Outputs of the classifier that `factory` makes by default; of a model of language, the
        tokens that it knows.
    parameters
        Number of trainable scalars with that classifier, as published.
    input_dtype
        PyTorch's name of the input's type: ``"int64"`` for tokens.
    """

    name: str
    factory: Callable[..., torch.nn.Module]
    input_shape: tuple[int, ...]
    classes: int
    parameters: int
    input_dtype: str = "float32"


def _imported_late(module: str, function: str) -> Callable[..., torch.nn.Module]:
    def factory(**options: Any) -> torch.nn.Module:
        loaded = importlib.import_module(f"workbench.zoo.{module}")
        made: torch.nn.Module = getattr(loaded, function)(**options)
        return made

    factory.__name__ = factory.__qualname__ = function
    return factory


def _model(
    name: str,
    module: str,
    input_shape: tuple[int, ...],
    classes: int,
    parameters: int,
    *,
    input_dtype: str = "float32",
) -> Model:
    return Model(name, _imported_late(module, name), input_shape, classes, parameters, input_dtype)


_IMAGENET = (3, 224, 224)

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        _model("lenet5", "lenet", (1, 28, 28), 10, 61_706),
        _model("lenet5_cifar", "lenet", (3, 32, 32), 10, 62_006),
        _model("cipher", "cipher", (3, 32, 32), 10, 1_302_410),
        _model("cipher_grey", "cipher", (1, 28, 28), 10, 1_002_230),
        _model("cipher_small", "cipher", (1, 8, 8), 10, 10_346),
        _model("cifarnet", "cifarnet", (3, 32, 32), 10, 1_250_858),
        _model("alexnet", "alexnet", _IMAGENET, 1000, 61_100_840),
        _model("alexnet_cifar", "alexnet", (3, 32, 32), 10, 58_322_314),
        _model("alexnet_small", "alexnet", (3, 32, 32), 10, 113_850),
        _model("alexnet_tiny", "alexnet", (3, 64, 64), 200, 57_823_240),
        _model("vgg16", "vgg", _IMAGENET, 1000, 138_357_544),
        _model("vgg19", "vgg", _IMAGENET, 1000, 143_667_240),
        _model("googlenet", "googlenet", _IMAGENET, 1000, 6_624_904),
        _model("inception_v3", "inception_v3", (3, 299, 299), 1000, 23_834_568),
        _model("inception_v4", "inception_v4", (3, 299, 299), 1000, 42_679_816),
        _model("resnet18", "resnet", _IMAGENET, 1000, 11_689_512),
        _model("resnet34", "resnet", _IMAGENET, 1000, 21_797_672),
        _model("resnet50", "resnet", _IMAGENET, 1000, 25_557_032),
        _model("resnet152", "resnet", _IMAGENET, 1000, 60_192_808),
        _model("resnet20_cifar", "resnet", (3, 32, 32), 10, 269_722),
        _model("mask_rcnn", "mask_rcnn", (3, 768, 768), 91, 44_401_393),
        _model("squeezenet", "squeezenet", _IMAGENET, 1000, 1_248_424),
        _model("squeezenet_cifar", "squeezenet", (3, 32, 32), 10, 729_034),
        _model("mobilenet_v1", "mobilenet_v1", _IMAGENET, 1000, 4_231_976),
        _model("mobilenet_v1_cifar", "mobilenet_v1", (3, 32, 32), 10, 3_217_226),
        _model("mobilenet_v2", "mobilenet_v2", _IMAGENET, 1000, 3_504_872),
        _model("mobilenet_v2_cifar", "mobilenet_v2", (3, 32, 32), 10, 2_236_682),
        _model("vit_b_16", "vit", _IMAGENET, 1000, 86_567_656),
        _model("vit_tiny", "vit", _IMAGENET, 1000, 5_717_416),
        _model("vit_tiny_cifar", "vit", (3, 32, 32), 10, 208_074),
        _model("gpt2", "gpt", (1024,), 50257, 124_439_808, input_dtype="int64"),
        _model("gpt_tiny", "gpt", (32,), 16, 103_168, input_dtype="int64"),
        _model("bert_tiny", "bert", (128,), 2, 4_386_178, input_dtype="int64"),
    )
}


def build(name: str, device: str | torch.device | None = None) -> torch.nn.Module:
    """Build a model of the zoo, randomly initialised.

    Its weights live on `device`, or PyTorch's default device; ``"meta"`` gives the architecture
    without any memory.
    """
    model = choose("model", name, MODELS)
    import torch

    if device is None:
        return model.factory()
    with torch.device(device):
        return model.factory()
