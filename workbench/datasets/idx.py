"""The IDX format: two zero bytes, type, number of axes, their sizes big-endian, then the data."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.dataset import DatasetError

_UNSIGNED_BYTES = 8


def read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """Read an array of unsigned bytes with so many axes; ``.gz`` files are unpacked."""
    advice = "remove it, and it is fetched anew"
    try:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read ({error}); {advice}") from error
    start = 4 + 4 * axes
    if data[:4] != bytes((0, 0, _UNSIGNED_BYTES, axes)) or len(data) < start:
        raise DatasetError(f"{path} is no IDX file of bytes with {axes} axes; {advice}")
    shape = struct.unpack(f">{axes}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise DatasetError(
            f"{path} announces {math.prod(shape)} bytes of data but holds {len(data) - start}; "
            f"{advice}"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
