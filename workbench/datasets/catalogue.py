"""The data sets by name, and how one is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from workbench.datasets import cifar10, digits, imagenet8, mnist, npz
from workbench.datasets.dataset import Dataset, DatasetError
from workbench.datasets.fetch import data_folder
from workbench.names import check_name

SOURCES: dict[str, Callable[[Callable[[], Path], str | None], Dataset]] = {
    "digits": lambda folder, mirror: digits.load(),
    "mnist": lambda folder, mirror: mnist.load(mnist.MNIST, folder(), mirror),
    "fashion_mnist": lambda folder, mirror: mnist.load(mnist.FASHION_MNIST, folder(), mirror),
    "cifar10": lambda folder, mirror: cifar10.load(cifar10.CIFAR10, folder(), mirror),
    "imagenet8": lambda folder, mirror: imagenet8.load(folder() / imagenet8.LAYOUT),
}
"""What reads each data set from a folder, fetching it from a mirror if it is not there.

`digits` needs no folder, and `imagenet8` cannot be fetched.
"""


def load(
    name_or_path: str | os.PathLike[str],
    *,
    folder: Path | str | None = None,
    mirror: str | None = None,
) -> Dataset:
    """Load a data set by name, or by the path of an ``.npz`` file or of a folder.

    Parameters
    ----------
    name_or_path
        One of `SOURCES`; or a path that ends in ``.npz``, see `workbench.datasets.npz.load` for
        what such a file holds; or the folder of ImageNet 8x8, see
        `workbench.datasets.imagenet8.load`. A name is never taken for a folder; ``./digits`` is
        a folder.
    folder
        Where copies lie and to where they are fetched; `data_folder()` by default.
    mirror
        URL of the folder from which to fetch instead of the publishers'; the published checksums
        hold for it too.

    Raises
    ------
    workbench.names.UnknownNameError
        No data set of that name; the message lists all and the nearest.
    DatasetError
        It is not in `folder` and cannot be fetched, or a file of it is broken. The message says
        what to do. Both are `ValueError`.
    """
    given = os.fspath(name_or_path)
    path = Path(given).expanduser()
    by_path = isinstance(name_or_path, os.PathLike) or os.sep in given
    if given.endswith(".npz"):
        return npz.load(path)
    if (by_path or given not in SOURCES) and path.is_dir():
        return imagenet8.load(path)
    if by_path:
        raise DatasetError(f"{path} is no .npz file and no folder; give one of these, or a name")
    check_name("data set", given, [*SOURCES, "PATH.npz", "FOLDER/"])
    return SOURCES[given](
        lambda: data_folder() if folder is None else Path(folder).expanduser(), mirror
    )
