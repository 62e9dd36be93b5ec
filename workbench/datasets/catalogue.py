"""The data sets by name, and how one is loaded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from workbench.datasets import cluttered_digits, digits, imagenet8, markov, npz
from workbench.datasets.dataset import Dataset, DatasetError
from workbench.datasets.published import (
    CIFAR10,
    FASHION_MNIST,
    FOLDER_VARIABLE,
    MNIST,
    Published,
    data_folder,
)
from workbench.utils.checks import check_name
from workbench.utils.files import expanded


class Source(NamedTuple):
    """Where a data set comes from.

    `load` reads it from a folder, after fetching it if it is missing; `present` is whether it can
    be read without a network; `title` is for charts.
    """

    title: str
    load: Callable[[Callable[[], Path]], Dataset]
    present: Callable[[Path], bool] = lambda folder: True


def published(data: Published) -> Source:
    """Return a data set on the network as a source."""
    return Source(data.title, lambda folder: data.load(folder()), data.present)


PART = "cifar10_10k.npz"
PART_SHA256 = "9cd10bcfa6a4ab694e1c0c977d205c2187b65e8e96bca0776988bb79713c2d27"
"""10,000 training and 2,000 test images, from a copy as JPEG, so that pixels differ slightly."""


def _load_part(folder: Path) -> Dataset:
    """Read the part of CIFAR-10 that recordings learn from; nobody publishes it."""
    path = folder / PART
    if not path.is_file():
        raise DatasetError(
            f"cifar10_10k is not in {folder}: {PART}, 10,000 training and 2,000 test images of "
            f"CIFAR-10 from a copy as JPEG, with the SHA-256 {PART_SHA256}. Put it there, or set "
            f"{FOLDER_VARIABLE} to its folder; the whole data set is cifar10"
        )
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != PART_SHA256:
            raise DatasetError(f"{path} is another file: its SHA-256 is not {PART_SHA256}")
    return npz.load(path)


SOURCES = {
    "digits": Source("digits", lambda folder: digits.load()),
    "cluttered_digits": Source("cluttered digits", lambda folder: cluttered_digits.load(folder())),
    "markov": Source("Markov chain", lambda folder: markov.load()),
    "mnist": published(MNIST),
    "fashion_mnist": published(FASHION_MNIST),
    "cifar10": published(CIFAR10),
    "cifar10_10k": Source(
        "a part of CIFAR-10",
        lambda folder: _load_part(folder()),
        lambda folder: (folder / PART).is_file(),
    ),
    "imagenet8": Source(
        "ImageNet 8x8",
        lambda folder: imagenet8.load(folder() / imagenet8.LAYOUT),
        lambda folder: not imagenet8.missing(folder / imagenet8.LAYOUT),
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
