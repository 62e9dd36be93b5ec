"""The data sets by name, and how one is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from workbench.datasets import cifar10, digits, mnist, npz
from workbench.datasets.dataset import Dataset
from workbench.datasets.fetch import data_folder
from workbench.names import check_name

SOURCES: dict[str, Callable[[Callable[[], Path], str | None], Dataset]] = {
    "digits": lambda folder, mirror: digits.load(),
    "mnist": lambda folder, mirror: mnist.load(mnist.MNIST, folder(), mirror),
    "fashion_mnist": lambda folder, mirror: mnist.load(mnist.FASHION_MNIST, folder(), mirror),
    "cifar10": lambda folder, mirror: cifar10.load(cifar10.CIFAR10, folder(), mirror),
}
"""What reads each data set from a folder, fetching it from a mirror if it is not there."""


def load(
    name_or_path: str | os.PathLike[str],
    *,
    folder: Path | str | None = None,
    mirror: str | None = None,
) -> Dataset:
    """Load a data set by name, or an ``.npz`` file by path.

    Parameters
    ----------
    name_or_path
        One of `SOURCES`, or a path that ends in ``.npz``; see `workbench.datasets.npz.load` for
        what such a file holds.
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
    if given.endswith(".npz") or isinstance(name_or_path, os.PathLike):
        return npz.load(Path(given).expanduser())
    if given not in SOURCES:
        check_name("data set", given, [*SOURCES, "PATH.npz"])
    return SOURCES[given](
        lambda: data_folder() if folder is None else Path(folder).expanduser(), mirror
    )
