"""Images: bytes as numbers, and another size without interpolation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workbench.utils.checks import UserError

Images = NDArray[np.float32]


def scaled(pixels: NDArray[np.uint8]) -> Images:
    """Bytes as float32 from 0 to 1."""
    images = pixels.astype(np.float32)
    images /= np.float32(255)
    return images


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
