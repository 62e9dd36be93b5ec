"""ImageNet in 8 x 8 pixels (Chrabaszcz, Loshchilov and Hutter 2017, arXiv:1707.08819).

1,281,167 images to train on and 50,000 to test, 1,000 classes. Only whoever has registered with
ImageNet may download it, so nothing is fetched here. The version in ``.npz`` files, because the
other one is of pickles, and unpickling a download runs code.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.dataset import Dataset, DatasetError, Labels
from workbench.datasets.images import scaled
from workbench.datasets.npz import read_arrays
from workbench.datasets.published import FOLDER_VARIABLE

LAYOUT = "imagenet8"
TRAIN_FILES = tuple(f"train_data_batch_{number}.npz" for number in range(1, 11))
TEST_FILE = "val_data.npz"
CLASSES = tuple(map(str, range(1, 1001)))
"""The publishers' numbers; their ``map_clsloc.txt`` says which class each is."""


def load(folder: Path) -> Dataset:
    """Read the eleven files of a folder, or of the folders that the archives unpack to within it.

    ``train_data_batch_1.npz`` to ``train_data_batch_10.npz`` and ``val_data.npz``. Each holds
    ``data``, bytes of shape N x 192: red, green and blue rows of an image; and ``labels``, N,
    from 1 to 1000, which become 0 to 999. ``mean`` is not read: nothing is subtracted.

    The whole set takes 1 GB of memory as float32 images, and 16 GB `fitted` to 3 x 32 x 32, so
    `limit` it first.
    """
    if lacking := missing(folder):
        names = ", ".join(lacking) if len(lacking) < len(TRAIN_FILES) else "files"
        raise DatasetError(
            f"data set 'imagenet8' is not in {folder}: no {names}; it cannot be "
            "fetched, since ImageNet asks for registration: register at "
            "https://image-net.org/download-images, download Imagenet8_train_npz.zip and "
            f"Imagenet8_val_npz.zip, and unpack both into {folder}; or give datasets.load the "
            f"folder that holds them, or set {FOLDER_VARIABLE} to one with {LAYOUT} in it"
        )
    batches = [_read(path) for name in TRAIN_FILES if (path := _find(folder, name))]
    x_train, y_train = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    x_test, y_test = _read(_find(folder, TEST_FILE) or folder)
    return Dataset("imagenet8", scaled(x_train), y_train, scaled(x_test), y_test, CLASSES)


def missing(folder: Path) -> list[str]:
    """Files that are not where `load` looks for them."""
    return [name for name in (*TRAIN_FILES, TEST_FILE) if not _find(folder, name)]


def _find(folder: Path, name: str) -> Path | None:
    places = (folder / name, *folder.glob(f"Imagenet8_*/{name}"))
    return next((path for path in places if path.is_file()), None)


def _read(path: Path) -> tuple[NDArray[np.uint8], Labels]:
    arrays = read_arrays(path, ("data", "labels"))
    data, labels = arrays["data"], arrays["labels"]
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or not labels.size:
        raise DatasetError(
            f"{path}: labels is {labels.dtype} of shape {labels.shape}; labels are whole numbers, "
            "one for each image"
        )
    if data.dtype != np.uint8 or data.shape != (len(labels), 192):
        raise DatasetError(
            f"{path}: data is {data.dtype} of shape {data.shape}; for {len(labels)} labels it must "
            f"be uint8 of shape {(len(labels), 192)}, 8 x 8 pixels in three colours"
        )
    return data.reshape(-1, 3, 8, 8), labels.astype(np.int64) - 1
