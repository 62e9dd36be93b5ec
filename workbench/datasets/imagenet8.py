"""ImageNet in 8 x 8 pixels (Chrabaszcz, Loshchilov and Hutter 2017, arXiv:1707.08819).

1,281,167 images to train on and 50,000 to test, 1,000 classes. Only whoever has registered with
ImageNet may download it, so nothing is fetched here. The version in ``.npz`` files, because the
other one is of pickles, and unpickling a download runs code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.dataset import Dataset, DatasetError, Labels
from workbench.datasets.fetch import FOLDER_VARIABLE
from workbench.datasets.images import Images
from workbench.datasets.npz import read_arrays

LAYOUT = "imagenet8"
PUBLISHER = "https://image-net.org/download-images"
TRAIN_FOLDERS = ("Imagenet8_train_npz", "Imagenet8_train")
TEST_FOLDERS = ("Imagenet8_val_npz", "Imagenet8_val")
TRAIN_FILES = tuple(f"train_data_batch_{number}.npz" for number in range(1, 11))
TEST_FILE = "val_data.npz"
CLASSES = tuple(map(str, range(1, 1001)))
"""The publishers' numbers; their ``map_clsloc.txt`` says which class each is."""

_IMAGE = (3, 8, 8)
_MOST_IMAGES = 200_000  # in one file; the published ones have 128,117 at most


def load(folder: Path) -> Dataset:
    """Read the eleven files of a folder, or of the folders that the archives unpack to within it.

    ``train_data_batch_1.npz`` to ``train_data_batch_10.npz`` and ``val_data.npz``. Each holds
    ``data``, bytes of shape N x 192: red, green and blue rows of an image; and ``labels``, N,
    from 1 to 1000, which become 0 to 999. ``mean`` is not read: nothing is subtracted.

    The whole set takes 1 GB of memory as float32 images, and 16 GB `fitted` to 3 x 32 x 32, so
    `limit` it first.
    """
    train = _find(folder, TRAIN_FOLDERS, TRAIN_FILES)
    test = _find(folder, TEST_FOLDERS, (TEST_FILE,))
    x_train, y_train = _read(train)
    x_test, y_test = _read(test)
    return Dataset("imagenet8", x_train, y_train, x_test, y_test, CLASSES)


def present(folder: Path) -> bool:
    """Whether all eleven files are where `load` looks for them."""
    parts = ((TRAIN_FOLDERS, TRAIN_FILES), (TEST_FOLDERS, (TEST_FILE,)))
    return not any(_fullest(folder, within, names)[1] for within, names in parts)


def _fullest(
    folder: Path, within: Sequence[str], names: Sequence[str]
) -> tuple[Path, Sequence[str]]:
    """Return the folder that holds most of these files, and those that it lacks."""
    places = [folder, *(folder / name for name in within)]
    lacking = {place: [name for name in names if not (place / name).is_file()] for place in places}
    return min(lacking.items(), key=lambda place: len(place[1]))


def _find(folder: Path, within: Sequence[str], names: Sequence[str]) -> list[Path]:
    fullest, lacking = _fullest(folder, within, names)
    if not lacking:
        return [fullest / name for name in names]
    if len(lacking) < len(names):
        raise DatasetError(
            f"{fullest} has no {', '.join(lacking)}; unpack {within[0]}.zip there again"
        )
    advice = (
        f"it cannot be fetched, since ImageNet asks for registration: register at {PUBLISHER}, "
        f"download {TRAIN_FOLDERS[0]}.zip and {TEST_FOLDERS[0]}.zip, and unpack both into "
        f"{folder}; or give datasets.load the folder that holds them, or set {FOLDER_VARIABLE} to "
        f"one with {LAYOUT} in it"
    )
    raise DatasetError(f"data set 'imagenet8' is not in {folder}: no {names[0]}; {advice}")


def _read(paths: Sequence[Path]) -> tuple[Images, Labels]:
    """Images and labels of these files, concatenated.

    Labels are read first, since they say how many images there are: each batch of bytes is then
    converted into its place, so that there is never a second copy of all.
    """
    labels = [_labels(path, read_arrays(path, ("labels",))["labels"]) for path in paths]
    y = np.concatenate(labels)
    x = np.empty((len(y), *_IMAGE), np.float32)
    first = 0
    for path, own in zip(paths, labels, strict=True):
        pixels = _pixels(path, read_arrays(path, ("data",))["data"], len(own))
        np.divide(pixels, np.float32(255), out=x[first : first + len(own)])
        first += len(own)
    return x, y


def _labels(path: Path, labels: NDArray[Any]) -> Labels:
    if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1 or not labels.size:
        raise DatasetError(
            f"{path}: labels is {labels.dtype} of shape {labels.shape}; labels are whole numbers, "
            "one for each image"
        )
    if labels.size > _MOST_IMAGES:  # before memory is taken for its images
        raise DatasetError(f"{path}: {labels.size:,} labels; a file has at most {_MOST_IMAGES:,}")
    if labels.min() < 1 or labels.max() > len(CLASSES):
        raise DatasetError(
            f"{path}: labels from {labels.min()} to {labels.max()}; "
            f"in these files they are from 1 to {len(CLASSES)}"
        )
    return labels.astype(np.int64) - 1


def _pixels(path: Path, data: NDArray[Any], count: int) -> NDArray[np.uint8]:
    values = int(np.prod(_IMAGE))
    if data.dtype != np.uint8 or data.shape != (count, values):
        raise DatasetError(
            f"{path}: data is {data.dtype} of shape {data.shape}; for {count} labels it must be "
            f"uint8 of shape {(count, values)}, 8 x 8 pixels in three colours"
        )
    return data.reshape(count, *_IMAGE)
