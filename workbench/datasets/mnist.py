"""MNIST and Fashion-MNIST: four IDX files each.

LeCun, Cortes and Burges, "The MNIST database of handwritten digits", 1998; Xiao, Rasul and
Vollgraf, "Fashion-MNIST", 2017. The checksums are those of the files as first published.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.dataset import Dataset, DatasetError
from workbench.datasets.fetch import Remote, fetch_for
from workbench.datasets.images import scaled

FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


@dataclass(frozen=True)
class IdxSource:
    """Folder and mirrors of a set of four IDX files, and the SHA-256 of each of `FILES`.

    `layout` is the usual folder, below the data folder.
    """

    name: str
    layout: str
    mirrors: tuple[str, ...]
    sha256: tuple[str, str, str, str]
    classes: tuple[str, ...]

    @property
    def remotes(self) -> list[Remote]:
        """The files on the network."""
        pairs = zip(FILES, self.sha256, strict=True)
        return [Remote(name, sha256, self.mirrors) for name, sha256 in pairs]


MNIST = IdxSource(
    "mnist",
    "MNIST/raw",
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    tuple(map(str, range(10))),
)

FASHION_MNIST = IdxSource(
    "fashion_mnist",
    "FashionMNIST/raw",
    ("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",),
    (
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
)


def load(source: IdxSource, folder: Path) -> Dataset:
    """Read the four files of `folder`, packed or unpacked, fetching those that are missing."""
    paths = [_find(source, file, folder) for file in source.remotes]
    x_train, x_test = (scaled(_read_idx(path, 3)[:, None]) for path in paths[::2])
    y_train, y_test = (_read_idx(path, 1).astype(np.int64) for path in paths[1::2])
    return Dataset(source.name, x_train, y_train, x_test, y_test, source.classes)


def present(source: IdxSource, folder: Path) -> bool:
    """Whether all four files are in `folder`."""
    return all(_copy(source, name, folder) for name in FILES)


def _copy(source: IdxSource, name: str, folder: Path) -> Path | None:
    packed = folder / source.layout / name
    return next((path for path in (packed.with_suffix(""), packed) if path.is_file()), None)


def _find(source: IdxSource, file: Remote, folder: Path) -> Path:
    if copy := _copy(source, file.name, folder):
        return copy
    return fetch_for(
        source.name,
        file,
        folder / source.layout,
        files=source.remotes,
        folder=folder,
        layout=source.layout,
    )


def _read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes with `axes` axes; ``.gz`` files are unpacked.

    The format: two zero bytes, type (8), number of axes, their sizes big-endian, then the data.
    """
    advice = "remove it, and it is fetched again"
    try:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read ({error}); {advice}") from error
    start = 4 + 4 * axes
    if data[:4] != bytes((0, 0, 8, axes)) or len(data) < start:
        raise DatasetError(f"{path} is no IDX file of bytes with {axes} axes; {advice}")
    shape = struct.unpack(f">{axes}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise DatasetError(
            f"{path} announces {math.prod(shape)} bytes of data but holds {len(data) - start}; "
            f"{advice}"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
