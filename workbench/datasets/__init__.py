"""Data sets by name, or by path: images or tokens and their labels, as numpy arrays.

>>> from workbench import datasets
>>> digits = datasets.load("digits")
>>> digits.x_train.shape, digits.x_train.dtype
((1442, 1, 8, 8), dtype('float32'))

`digits` comes with scikit-learn and needs no network; nor does `cluttered_digits`, which is made of
it and harder, nor `markov`, tokens of known entropy. `mnist`, `fashion_mnist` and `cifar10` are
downloaded once to `data_folder()`. `imagenet8` is ImageNet in 8 x 8 pixels, which needs
registration: it is read from `data_folder()` or, by path, from where you unpacked it.
``load("own.npz")`` reads your own images or tokens; a `Dataset` holds arrays of any type and shape.
Nothing is ever replaced by other data.
"""

from workbench.datasets.catalogue import SOURCES, available, load, title
from workbench.datasets.dataset import IGNORED, Dataset, DatasetError, NamedArrays
from workbench.datasets.published import data_folder

__all__ = [
    "IGNORED",
    "SOURCES",
    "Dataset",
    "DatasetError",
    "NamedArrays",
    "available",
    "data_folder",
    "load",
    "title",
]
