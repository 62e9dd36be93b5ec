"""Model architectures by name: plain PyTorch modules with their input shape.

>>> from workbench import zoo
>>> zoo.MODELS["vgg19"].input_shape
(3, 224, 224)

PyTorch itself is imported when a model is built, not when its name is looked up.
"""

from workbench.zoo.catalogue import MODELS, Model, build

__all__ = ["MODELS", "Model", "build"]
