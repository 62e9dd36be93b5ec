"""Distorted digits among pieces of others: harder than `digits`, and no network either.

10,000 images of 28 x 28 grey pixels to train on and 2,000 to test, made from scikit-learn's digits
as Mnih, Heess, Graves and Kavukcuoglu clutter MNIST ("Recurrent models of visual attention", 2014,
Sec. 4.1). Each shows one digit, rotated by up to 25 degrees, sheared by up to a quarter, enlarged
2.1 to 3 times, width and height independently, and shifted by up to 3 pixels; over it three pieces
of 5 x 5 pixels of other such digits; and noise. Test images are made of the test digits of
`workbench.datasets.digits` alone, training images of the others.

LeNet-5 on one worker, batches of 32, SGD with a learning rate of 0.02 and a momentum of 0.9, ends
at (seeds 0, 1 and 2) 92.5, 91.4 and 91.8 % of test images after 10 epochs, and at 92.8, 91.9 and
91.7 % after 20; from 1,500 training images at 78.5, 78.2 and 76.4 %.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from workbench.datasets import digits
from workbench.datasets.dataset import Dataset, DatasetError, Labels
from workbench.datasets.images import Images, scaled
from workbench.utils import files

FILE = "cluttered_digits.bin"
SHA256 = "1ef416cd0d11b4d50f0ae14ba5af28a6de6a390bb5db13c446fc4f8cc1b6cce9"
"""Of the records: a byte of label and 28 x 28 of image, those to train on first."""

TRAIN, TEST, SIDE = 10_000, 2_000, 28

# Integers alone, of bits that NumPy keeps from version to version: every machine makes the same.
_ONE = 256  # 1 in fixed point, in matrices its square
_HALF_TURN = 57  # tan(25 degrees / 2)
_SHEAR = 64
_SIZE = (17, 24)  # pixels that 8 pixels become
_SHIFT = 3 * _ONE
_PIECES, _PIECE_SIDE, _EMPTY_BORDER = 3, 5, 4
_NOISE = 40  # standard deviation 23 of 255
_CHUNK = 500  # images; faster than all at once, which leave the cache


def load(folder: Path) -> Dataset:
    """Read the images from `folder`; make them, and keep them there, where they are not.

    A damaged file is replaced. Where nothing can be written they are made each time, in seconds.
    What was made here and is not what it is elsewhere is refused.
    """
    data = np.frombuffer(_kept(folder / FILE), np.uint8).reshape(TRAIN + TEST, 1 + SIDE * SIDE)
    x, y = scaled(data[:, 1:].reshape(-1, 1, SIDE, SIDE)), data[:, 0].astype(np.int64)
    classes = tuple(map(str, range(10)))
    return Dataset("cluttered_digits", x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], classes)


def _kept(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        records = path.read_bytes()
        if hashlib.sha256(records).hexdigest() == SHA256:
            return records
    records = make()
    checksum = hashlib.sha256(records).hexdigest()
    if checksum != SHA256:
        raise DatasetError(
            f"cluttered_digits made here have the checksum {checksum}, not {SHA256}: another "
            "version of scikit-learn's digits? Install the locked packages"
        )
    with contextlib.suppress(OSError):
        files.write_bytes(path, records)
    return records


def make() -> bytes:
    """Return the records of all images."""
    plain = digits.load()
    return b"".join(
        _records(x, y, count, np.random.PCG64(np.random.SeedSequence(0, spawn_key=(part,))))
        for part, (x, y, count) in enumerate(
            ((plain.x_train, plain.y_train, TRAIN), (plain.x_test, plain.y_test, TEST))
        )
    )


def _records(x: Images, y: Labels, count: int, bits: np.random.PCG64) -> bytes:
    of = np.arange(count) % len(x)  # every digit equally often, give or take once
    digits_alone = _distorted(np.rint(x[of, 0] * digits.WHITE).astype(np.int32), bits)
    images = digits_alone.copy()
    square = (_PIECE_SIDE, _PIECE_SIDE)
    pieces = sliding_window_view(digits_alone, square, axis=(1, 2))
    places = sliding_window_view(images, square, axis=(1, 2), writeable=True)
    own, inner, end = np.arange(count), _EMPTY_BORDER, SIDE - _PIECE_SIDE
    for _ in range(_PIECES):
        other = (own + _draw(bits, 1, count - 1, count)) % count
        rows, columns = (_draw(bits, inner, end - inner, count) for _ in range(2))
        place = own, _draw(bits, 0, end, count), _draw(bits, 0, end, count)
        places[place] = np.maximum(places[place], pieces[other, rows, columns])
    # A sum of four bytes is nearly normal.
    noise = bits.random_raw(images.size // 2).astype("<u8").view(np.uint8).reshape(-1, 4)
    centred = noise.sum(axis=1, dtype=np.int32).reshape(images.shape) - 4 * 255 // 2
    np.clip(images + (_NOISE * centred >> 8), 0, 255, out=images, casting="unsafe")
    return np.column_stack([y[of].astype(np.uint8), images.reshape(count, -1)]).tobytes()


def _distorted(sources: NDArray[np.int32], bits: np.random.PCG64) -> NDArray[np.uint8]:
    """Distort digits of 8 x 8 pixels from 0 to 16, each its own way, to 28 x 28 from 0 to 255.

    A pixel is interpolated between the four pixels around the place that it comes from.
    """
    count, side = len(sources), sources.shape[1]
    half = _draw(bits, -_HALF_TURN, _HALF_TURN, count)  # tangent of half the angle
    cos, sin = (
        _ONE**2 * part // (_ONE**2 + half**2) for part in (_ONE**2 - half**2, 2 * _ONE * half)
    )
    shear = _draw(bits, -_SHEAR, _SHEAR, count)
    width, height = (_draw(bits, *_SIZE, count) for _ in range(2))
    down = np.stack([-sin, cos]) * side // height
    right = np.stack([cos, sin]) * side // width + shear * down // _ONE
    matrix = np.stack([right, down]).astype(np.int32)[..., None, None]
    shifts = np.stack([_draw(bits, -_SHIFT, _SHIFT, count) for _ in range(2)])
    right_by, down_by = shifts.astype(np.int32)[..., None, None]
    framed = np.pad(sources, ((0, 0), (1, 2), (1, 2)))  # black all around
    row_length, last = framed.shape[2], (side + 1) * _ONE
    axis = np.arange(SIDE, dtype=np.int32) * _ONE - (SIDE - 1) * _ONE // 2
    images = np.empty((count, SIDE, SIDE), np.uint8)
    for start in range(0, count, _CHUNK):
        own = slice(start, start + _CHUNK)
        x, y = axis - right_by[own], axis[:, None] - down_by[own]
        column, row = (
            np.clip((a[own] * x + b[own] * y) // _ONE**2 + (side + 1) * _ONE // 2, 0, last)
            for a, b in matrix
        )
        pixels = framed[own].ravel()
        first = np.arange(len(x), dtype=np.int32)[:, None, None] * framed[0].size
        corner = first + row // _ONE * row_length + column // _ONE
        to_right, to_below = column % _ONE, row % _ONE
        above, below = (
            pixels.take(at) * (_ONE - to_right) + pixels.take(at + 1) * to_right
            for at in (corner, corner + row_length)
        )
        value = above * (_ONE - to_below) + below * to_below
        images[own] = value * 255 // (digits.WHITE * _ONE**2)
    return images


def _draw(bits: np.random.PCG64, low: int, high: int, count: int) -> NDArray[np.int64]:
    """Draw whole numbers from `low` to `high`, both included."""
    raw = bits.random_raw(count) >> np.uint64(32)
    return (raw % np.uint64(high - low + 1)).astype(np.int64) + low
