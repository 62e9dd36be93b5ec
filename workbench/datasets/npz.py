"""Data sets of the user's own, of images or tokens: an ``.npz`` file of four arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.dataset import IGNORED, Dataset, DatasetError
from workbench.datasets.images import Images

KEYS = ("x_train", "y_train", "x_test", "y_test")
MOST_BYTES = 4 * 10**9
"""Of the arrays that are read from a file, unpacked."""

_MOST_CHANNELS = 4
_MOST_CLASSES = 1_000_000


def load(path: Path) -> Dataset:
    """Read a data set from an ``.npz`` file.

    It holds ``x_train``, ``y_train``, ``x_test`` and ``y_test``. Images are N x H x W or
    N x H x W x C with one to four channels; N x C x H x W is understood where the last axis is
    longer than four. Bytes (uint8) are scaled to [0, 1]; floats are taken as they are. Other whole
    numbers, N x T, are tokens. Labels are whole numbers from 0, N or N x 1; of tokens also N x T, a
    label a position, -100 where none counts. The highest is the last class; of tokens that have
    labels a position, the highest of both. Objects are refused, since unpickling a file runs code.
    """
    if path.suffix != ".npz":
        raise DatasetError(f"{path} is no .npz file; write one with numpy.savez")
    arrays = read_arrays(path, KEYS)
    x_train, x_test = (_samples(path, key, arrays[key]) for key in ("x_train", "x_test"))
    tokens = x_train.dtype == np.int64
    y_train, y_test = (_labels(path, key, arrays[key], tokens) for key in ("y_train", "y_test"))
    for key, x, y in (("train", x_train, y_train), ("test", x_test, y_test)):
        if len(x) != len(y):
            raise DatasetError(
                f"{path}: {len(x)} samples in x_{key}, but {len(y)} labels in y_{key}"
            )
    labels = [y_train, y_test, *([x_train, x_test] if y_train.ndim > 1 else [])]
    classes = int(max(array.max() for array in labels)) + 1
    names = tuple(map(str, range(classes)))
    return Dataset(path.stem, x_train, y_train, x_test, y_test, names)


def read_arrays(path: Path, keys: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read these arrays of an ``.npz`` file, and no others; objects are refused."""
    try:
        with zipfile.ZipFile(path) as file:
            held = {one.filename.removesuffix(".npy"): one.file_size for one in file.infolist()}
        if missing := [key for key in keys if key not in held]:
            raise DatasetError(
                f"{path} has no {', '.join(missing)}; a data set has the arrays "
                f"{', '.join(keys)}, and this file {', '.join(held) or 'none'}"
            )
        if (unpacked := sum(held[key] for key in keys)) > MOST_BYTES:
            raise DatasetError(
                f"{path} unpacks to {unpacked / 1e6:,.0f} MB; at most "
                f"{MOST_BYTES / 1e6:,.0f} MB are read"
            )
        with np.load(path, allow_pickle=False) as arrays:
            return {key: np.asarray(arrays[key]) for key in keys}
    except DatasetError:
        raise
    except FileNotFoundError as error:
        raise DatasetError(f"{path}: there is no such file") from error
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    except Exception as error:  # NumPy, zipfile and decompressors raise many at damaged files
        raise DatasetError(f"{path} is not an .npz file of plain arrays: {error}") from error


def _samples(path: Path, key: str, samples: NDArray[Any]) -> NDArray[Any]:
    whole = np.issubdtype(samples.dtype, np.integer) and samples.dtype != np.uint8
    if whole and samples.ndim == 2 and samples.size:
        if samples.min() < 0 or samples.max() >= _MOST_CLASSES:
            raise DatasetError(
                f"{path}: {key} has tokens from {samples.min()} to {samples.max()}; they are from "
                f"0 to {_MOST_CLASSES - 1:,}"
            )
        return samples.astype(np.int64)
    return _images(path, key, samples)


def _images(path: Path, key: str, images: NDArray[Any]) -> Images:
    floats = np.issubdtype(images.dtype, np.floating)
    if images.dtype != np.uint8 and not floats:
        raise DatasetError(
            f"{path}: {key} is {images.dtype}; images are uint8 from 0 to 255, or floats"
        )
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[3] <= _MOST_CHANNELS:
        images = images.transpose(0, 3, 1, 2)
    if images.ndim != 4 or not 0 < images.shape[1] <= _MOST_CHANNELS or not images.size:
        raise DatasetError(
            f"{path}: {key} has shape {images.shape}; images are N x H x W or N x H x W x C "
            f"with one to {_MOST_CHANNELS} channels, and there is at least one"
        )
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused as such
        made = np.ascontiguousarray(images, dtype=np.float32)
    if not floats:
        made /= np.float32(255)
    return made


def _labels(path: Path, key: str, labels: NDArray[Any], of_tokens: bool) -> NDArray[np.int64]:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    axes = (1, 2) if of_tokens else (1,)
    if not np.issubdtype(labels.dtype, np.integer) or labels.ndim not in axes or not labels.size:
        of_each = "sample, or one for each token" if of_tokens else "image"
        raise DatasetError(
            f"{path}: {key} is {labels.dtype} of shape {labels.shape}; "
            f"labels are whole numbers, one for each {of_each}"
        )
    counted = labels if labels.ndim == 1 else labels[labels != IGNORED]
    least, most = (counted.min(), counted.max()) if counted.size else (0, 0)
    if least < 0 or most >= _MOST_CLASSES:
        raise DatasetError(
            f"{path}: {key} has labels from {least} to {most}; classes are numbered from 0"
        )
    return labels.astype(np.int64)
