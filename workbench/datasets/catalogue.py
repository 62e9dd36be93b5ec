"""The data sets by name, and how one is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from workbench.datasets import cifar10, cluttered_digits, digits, imagenet8, markov, mnist, npz
from workbench.datasets.dataset import Dataset, DatasetError
from workbench.datasets.fetch import data_folder
from workbench.utils.checks import check_name
from workbench.utils.files import expanded


class Source(NamedTuple):
    """Where a data set comes from.

    `load` reads it from a folder, after fetching it if it is missing; `present` is whether it can
    be read without a network; `title` is for charts.
    """

    title: str
    load: Callable[[Callable[[], Path]], Dataset]
    present: Callable[[Path], bool]


SOURCES = {
    "digits": Source("digits", lambda folder: digits.load(), lambda folder: True),
    "cluttered_digits": Source(
        "cluttered digits",
        lambda folder: cluttered_digits.load(folder()),
        lambda folder: True,
    ),
    "markov": Source("Markov chain", lambda folder: markov.load(), lambda folder: True),
    "mnist": Source(
        "MNIST",
        lambda folder: mnist.load(mnist.MNIST, folder()),
        lambda folder: mnist.present(mnist.MNIST, folder),
    ),
    "fashion_mnist": Source(
        "Fashion-MNIST",
        lambda folder: mnist.load(mnist.FASHION_MNIST, folder()),
        lambda folder: mnist.present(mnist.FASHION_MNIST, folder),
    ),
    "cifar10": Source(
        "CIFAR-10",
        lambda folder: cifar10.load(cifar10.CIFAR10, folder()),
        cifar10.present,
    ),
    "cifar10_10k": Source(
        "a part of CIFAR-10",
        lambda folder: cifar10.load_part(folder()),
        lambda folder: (folder / cifar10.PART).is_file(),
    ),
    "imagenet8": Source(
        "ImageNet 8x8",
        lambda folder: imagenet8.load(folder() / imagenet8.LAYOUT),
        lambda folder: imagenet8.present(folder / imagenet8.LAYOUT),
    ),
}


def available(folder: Path | str | None = None) -> list[str]:
    """Names that load without a network: in `folder`, `data_folder()` by default."""
    place = _folder(folder)
    return [name for name, source in SOURCES.items() if source.present(place)]


def title(name: str) -> str:
    """Return a data set's name for charts; that of an own file as it is."""
    return SOURCES[name].title if name in SOURCES else name


def load(name_or_path: str | os.PathLike[str], *, folder: Path | str | None = None) -> Dataset:
    """Load a data set by name, or by the path of an ``.npz`` file or of a folder.

    Parameters
    ----------
    name_or_path
        One of `SOURCES`; or a path that ends in ``.npz``, see `workbench.datasets.npz.load` for
        the content; or the folder of ImageNet 8x8, see `workbench.datasets.imagenet8.load`. A
        name is never taken for a folder; ``./digits`` is a folder.
    folder
        Of downloaded copies; `data_folder()` by default.

    Raises
    ------
    DatasetError
        It is not in `folder` and cannot be fetched, or a file of it is broken. The message says
        what to do.
    """
    name = os.fspath(name_or_path)
    path = expanded(name)
    by_path = isinstance(name_or_path, os.PathLike) or os.sep in name
    if name.endswith(".npz"):
        return npz.load(path)
    if (by_path or name not in SOURCES) and path.is_dir():
        return imagenet8.load(path)
    if by_path:
        raise DatasetError(f"{path} is no .npz file and no folder; give one of these, or a name")
    check_name("data set", name, [*SOURCES, "PATH.npz", "FOLDER/"])
    return SOURCES[name].load(lambda: _folder(folder))


def _folder(folder: Path | str | None) -> Path:
    return data_folder() if folder is None else expanded(folder)
