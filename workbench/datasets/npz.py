"""Data sets of the user's own, of images or tokens: an ``.npz`` file of four arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.dataset import IGNORED, Dataset, DatasetError

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
    labels = [y_train, y_test, *([x_train, x_test] if y_train.ndim > 1 else [])]
    names = tuple(map(str, range(int(max(array.max() for array in labels)) + 1)))
    return Dataset(path.stem, x_train, y_train, x_test, y_test, names)


def read_arrays(path: Path, keys: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read these arrays of an ``.npz`` file, and no others; objects are refused."""
    try:
        with zipfile.ZipFile(path) as file:
            held = {info.filename.removesuffix(".npy"): info.file_size for info in file.infolist()}
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
        # NumPy's own text would advise to unpickle, which runs code.
        raise DatasetError(f"{path} is damaged, or not an .npz file of plain arrays") from error


def _samples(path: Path, key: str, samples: NDArray[Any]) -> NDArray[Any]:
    """Tokens as int64, images as float32, channels first."""
    if samples.dtype.kind in "iu" and samples.dtype != np.uint8 and samples.ndim == 2:
        return _whole(path, key, samples)
    floats = samples.dtype.kind == "f"
    if samples.dtype != np.uint8 and not floats:
        raise DatasetError(
            f"{path}: {key} is {samples.dtype}; images are uint8 from 0 to 255, or floats"
        )
    if samples.ndim == 3:
        samples = samples[:, None]
    elif samples.ndim == 4 and samples.shape[3] <= _MOST_CHANNELS:
        samples = samples.transpose(0, 3, 1, 2)
    if samples.ndim != 4 or not 0 < samples.shape[1] <= _MOST_CHANNELS:
        raise DatasetError(
            f"{path}: {key} has shape {samples.shape}; images are N x H x W or N x H x W x C "
            f"with one to {_MOST_CHANNELS} channels"
        )
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused as such
        images = np.ascontiguousarray(samples, dtype=np.float32)
    if not floats:
        images /= np.float32(255)
    return images


def _labels(path: Path, key: str, labels: NDArray[Any], of_tokens: bool) -> NDArray[np.int64]:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind not in "iu" or labels.ndim not in ((1, 2) if of_tokens else (1,)):
        of_each = "sample, or one for each token" if of_tokens else "image"
        raise DatasetError(
            f"{path}: {key} is {labels.dtype} of shape {labels.shape}; "
            f"labels are whole numbers, one for each {of_each}"
        )
    return _whole(path, key, labels, IGNORED if labels.ndim > 1 else None)


def _whole(
    path: Path, key: str, numbers: NDArray[Any], ignored: int | None = None
) -> NDArray[np.int64]:
    """Tokens, or labels of which some are ignored, as int64."""
    counted = numbers if ignored is None else numbers[numbers != ignored]
    if counted.size and not 0 <= counted.min() <= counted.max() < _MOST_CLASSES:
        raise DatasetError(
            f"{path}: {key} has numbers from {counted.min()} to {counted.max()}; tokens and labels "
            f"are from 0 to {_MOST_CLASSES - 1:,}"
        )
    if not numbers.size:
        raise DatasetError(f"{path}: {key} is empty; give at least one sample")
    return numbers.astype(np.int64)
