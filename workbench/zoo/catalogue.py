"""The names of the zoo, and facts about each model that need no PyTorch."""

from __future__ import annotations

import importlib
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
    name
        Also of the function that makes it.
    file
        Module of `workbench.zoo` in which that function is.
    input_shape
        Of one sample: channels, height, width; or the length of a text.
    classes
        Outputs of the classifier by default; of a model of language, the tokens that it knows.
    parameters
        Number of trainable scalars with that classifier, as published.
    input_dtype
        PyTorch's name of the input's type: ``"int64"`` for tokens.
    """

    name: str
    file: str
    input_shape: tuple[int, ...]
    classes: int
    parameters: int
    input_dtype: str = "float32"

    def factory(self, **options: Any) -> torch.nn.Module:
        """Make the module, randomly initialised; ``factory(classes=10)`` for other data."""
        module = importlib.import_module(f"workbench.zoo.{self.file}")
        made: torch.nn.Module = getattr(module, self.name)(**options)
        return made


_IMAGENET = (3, 224, 224)
_CIFAR = (3, 32, 32)

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("lenet5", "convolutional", (1, 28, 28), 10, 61_706),
        Model("lenet5_cifar", "convolutional", _CIFAR, 10, 62_006),
        Model("cipher", "convolutional", _CIFAR, 10, 1_302_410),  # DLion's
        Model("cipher_grey", "convolutional", (1, 28, 28), 10, 1_002_230),
        Model("cipher_small", "convolutional", (1, 8, 8), 10, 10_346),
        Model("cifarnet", "convolutional", _CIFAR, 10, 1_250_858),  # OLPB's
        Model("alexnet", "alexnet", _IMAGENET, 1000, 61_100_840),
        Model("alexnet_cifar", "alexnet", _CIFAR, 10, 58_322_314),
        Model("alexnet_small", "alexnet", _CIFAR, 10, 113_850),
        Model("alexnet_tiny", "alexnet", (3, 64, 64), 200, 57_823_240),
        Model("vgg16", "vgg", _IMAGENET, 1000, 138_357_544),
        Model("vgg19", "vgg", _IMAGENET, 1000, 143_667_240),
        Model("googlenet", "inception", _IMAGENET, 1000, 6_624_904),
        Model("inception_v3", "inception", (3, 299, 299), 1000, 23_834_568),
        Model("inception_v4", "inception", (3, 299, 299), 1000, 42_679_816),
        Model("resnet18", "resnet", _IMAGENET, 1000, 11_689_512),
        Model("resnet34", "resnet", _IMAGENET, 1000, 21_797_672),
        Model("resnet50", "resnet", _IMAGENET, 1000, 25_557_032),
        Model("resnet152", "resnet", _IMAGENET, 1000, 60_192_808),
        Model("resnet20_cifar", "resnet", _CIFAR, 10, 269_722),
        Model("mask_rcnn", "mask_rcnn", (3, 768, 768), 91, 44_401_393),
        Model("squeezenet", "squeezenet", _IMAGENET, 1000, 1_248_424),
        Model("squeezenet_cifar", "squeezenet", _CIFAR, 10, 729_034),
        Model("mobilenet_v1", "mobilenet", _IMAGENET, 1000, 4_231_976),
        Model("mobilenet_v1_cifar", "mobilenet", _CIFAR, 10, 3_217_226),
        Model("mobilenet_v2", "mobilenet", _IMAGENET, 1000, 3_504_872),
        Model("mobilenet_v2_cifar", "mobilenet", _CIFAR, 10, 2_236_682),
        # No paper trains transformers: they are what users look for, and what graphs and memory
        # plans are checked by; the small ones train within minutes.
        Model("vit_b_16", "vit", _IMAGENET, 1000, 86_567_656),
        Model("vit_tiny", "vit", _IMAGENET, 1000, 5_717_416),
        Model("vit_tiny_cifar", "vit", _CIFAR, 10, 208_074),
        Model("gpt2", "gpt", (1024,), 50257, 124_439_808, "int64"),
        Model("gpt_tiny", "gpt", (32,), 16, 103_168, "int64"),
        Model("bert_tiny", "bert", (128,), 2, 4_386_178, "int64"),
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
