"""Images and labels, for training and for testing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.utils.checks import UserError

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


class DatasetError(UserError):
    """A data set that is missing, cannot be fetched, or has another content."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named set of labelled images; its arrays are read-only.

    Attributes
    ----------
    name
        What it was loaded by.
    x_train, x_test
        float32 images, N x C x H x W. Whole-number pixels are scaled to [0, 1]; nothing else is
        done to them. An ``.npz`` file that holds floats is taken as it is.
    y_train, y_test
        int64 labels, N, from 0 to ``len(classes) - 1``.
    classes
        What each label means.
    """

    name: str
    x_train: Images
    y_train: Labels
    x_test: Images
    y_test: Labels
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            self._check(part, getattr(self, f"x_{part}"), getattr(self, f"y_{part}"))
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            raise DatasetError(
                f"{self.name}: images of {self.x_train.shape[1:]} in x_train, but of "
                f"{self.x_test.shape[1:]} in x_test"
            )
        for field in ("x_train", "y_train", "x_test", "y_test"):
            array = getattr(self, field).view()
            array.flags.writeable = False
            object.__setattr__(self, field, array)

    def __repr__(self) -> str:
        """Return its name and size, since its arrays are long."""
        size = " x ".join(map(str, self.x_train.shape[1:]))
        images = f"{len(self.y_train)} + {len(self.y_test)} images of {size}"
        return f"Dataset({self.name!r}, {images}, {len(self.classes)} classes)"

    def _check(self, part: str, x: Images, y: Labels) -> None:
        if x.dtype != np.float32 or x.ndim != 4 or not x.size:
            raise DatasetError(
                f"{self.name}: x_{part} is {x.dtype} of shape {x.shape}; "
                "it must be float32, N x C x H x W, of at least one image"
            )
        if y.dtype != np.int64 or y.shape != (len(x),):
            raise DatasetError(
                f"{self.name}: y_{part} is {y.dtype} of shape {y.shape}; "
                f"it must be int64, one label for each of the {len(x)} images"
            )
        if not (np.isfinite(x.min()) and np.isfinite(x.max())):
            raise DatasetError(f"{self.name}: x_{part} holds NaN or infinite pixels")
        if y.min() < 0 or y.max() >= len(self.classes):
            raise DatasetError(
                f"{self.name}: y_{part} has labels from {y.min()} to {y.max()}, "
                f"but there are {len(self.classes)} classes, numbered from 0"
            )

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Of one image: channels, height, width."""
        channels, height, width = self.x_train.shape[1:]
        return channels, height, width

    def subset(self, train: ArrayLike | None = None, test: ArrayLike | None = None) -> Dataset:
        """Keep the samples of these indices, in their order; all where None."""
        kept: dict[str, Any] = {}
        for part, wanted in (("train", train), ("test", test)):
            x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
            at = _indices(self.name, part, wanted, len(y))
            kept |= {f"x_{part}": x[at], f"y_{part}": y[at]}
        return replace(self, **kept)

    def limit(self, train: int | None = None, test: int | None = None, *, seed: int = 0) -> Dataset:
        """Draw samples at random, none twice; all where None or where there are no more.

        The same seed draws the same samples; a smaller number draws the first of a larger.
        """

        def drawn(stream: int, wanted: int | None, count: int) -> NDArray[np.int64] | None:
            if wanted is not None and wanted < 1:
                raise DatasetError(f"{self.name}: limit is {wanted}; at least one sample is needed")
            if wanted is None or wanted >= count:
                return None
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))
            return rng.permutation(count)[:wanted]

        return self.subset(drawn(0, train, len(self.y_train)), drawn(1, test, len(self.y_test)))

    def standardised(self) -> Dataset:
        """Shift and scale all pixels alike, so that those to train on have mean 0 and variance 1.

        Images of one colour stay as they are but for the shift.
        """
        mean, deviation = self.x_train.mean(dtype=np.float64), self.x_train.std(dtype=np.float64)
        scale = 1.0 / deviation if deviation > 0 else 1.0
        x_train, x_test = (
            ((x - mean) * scale).astype(np.float32) for x in (self.x_train, self.x_test)
        )
        return replace(self, x_train=x_train, x_test=x_test)

    def fitted(self, input_shape: Sequence[int]) -> Dataset:
        """Bring the images to a model's input shape; see `fit_images` for how."""
        try:
            x_train, x_test = (fit_images(x, input_shape) for x in (self.x_train, self.x_test))
        except ValueError as error:
            raise DatasetError(f"{self.name}: {error}") from error
        return replace(self, x_train=x_train, x_test=x_test)


def scaled(pixels: NDArray[np.uint8]) -> Images:
    """Bytes as float32 from 0 to 1."""
    images = pixels.astype(np.float32)
    images /= np.float32(255)
    return images


def _indices(name: str, part: str, wanted: ArrayLike | None, count: int) -> slice | Labels:
    if wanted is None:
        return slice(None)
    indices = np.asarray(wanted)
    whole = np.issubdtype(indices.dtype, np.integer)
    if indices.ndim != 1 or not indices.size or not whole:
        raise DatasetError(f"{name}: a subset of {part} is a list of at least one whole number")
    if indices.min() < 0 or indices.max() >= count:
        raise DatasetError(
            f"{name}: indices from {indices.min()} to {indices.max()}, "
            f"but {part} has samples 0 to {count - 1}"
        )
    return indices.astype(np.int64)


def fit_images(images: Images, input_shape: Sequence[int]) -> Images:
    """Bring images, N x C x H x W, to C x H x W without interpolation: the same on every machine.

    Smaller images are enlarged by the largest whole factor that fits, pixel by pixel; images at
    least twice too large are reduced by averaging square blocks. What is then left over is cut
    off at the border, what is missing there is black, equally on both sides. One channel is
    repeated; several become one by their mean.
    """
    shape = tuple(input_shape)
    if len(shape) != 3 or not all(size > 0 for size in shape):
        raise UserError(f"images have a shape of channels, height, width, not {shape}")
    if shape == images.shape[1:]:
        return images
    channels, height, width = shape
    images = _with_size(images, height, width)
    had = images.shape[1]
    if had not in (1, channels) and channels != 1:
        raise UserError(f"images of {had} channels do not give {channels}")
    if channels == 1 and had > 1:
        images = images.mean(axis=1, keepdims=True, dtype=np.float32)
    return np.ascontiguousarray(np.broadcast_to(images, (len(images), *shape)))


def _with_size(images: Images, height: int, width: int) -> Images:
    had_height, had_width = images.shape[2:]
    up = min(height // had_height, width // had_width)
    down = min(had_height // height, had_width // width)
    if up > 1:
        images = images.repeat(up, axis=2).repeat(up, axis=3)
    elif down > 1:
        count, channels = images.shape[:2]
        rows, columns = had_height // down, had_width // down
        images = _centred(_centred(images, 2, rows * down), 3, columns * down)
        blocks = images.reshape(count, channels, rows, down, columns, down)
        images = blocks.mean(axis=(3, 5), dtype=np.float32)
    return _centred(_centred(images, 2, height), 3, width)


def _centred(images: Images, axis: int, size: int) -> Images:
    """Cut or pad one axis to `size`, equally on both sides."""
    lacking = size - images.shape[axis]
    if lacking > 0:
        margins = [(0, 0)] * images.ndim
        margins[axis] = (lacking // 2, lacking - lacking // 2)
        return np.pad(images, margins)
    start = -lacking // 2
    return images.take(range(start, start + size), axis=axis) if lacking else images


def check_dataset(
    dataset: object, model: str = "the model", input_shape: Sequence[int] | None = None
) -> Dataset:
    """Return `dataset` if it is a `Dataset` whose images the model takes.

    `model` is its name, for the error; `input_shape` is channels, height and width, if known.
    """
    fitted = "" if input_shape is None else f".fitted({tuple(input_shape)})"
    if isinstance(dataset, str):
        raise UserError(
            f"dataset is the name {dataset!r}; give datasets.load({dataset!r}){fitted}, of images "
            f"as {model} takes them"
        )
    if not isinstance(dataset, Dataset):
        what = "None" if dataset is None else f"of type {type(dataset).__name__}"
        raise UserError(
            f"dataset is {what}; give a datasets.Dataset, such as datasets.load('digits'){fitted}"
        )
    if input_shape is not None and dataset.input_shape != tuple(input_shape):
        raise UserError(
            f"{dataset.name} has images {dataset.input_shape}, {model} takes {tuple(input_shape)}; "
            f"use dataset{fitted}"
        )
    return dataset
