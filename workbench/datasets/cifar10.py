"""CIFAR-10 in its binary version (Krizhevsky, "Learning multiple layers of features", 2009).

The binary version, because the one for Python is a pickle, and unpickling a download runs code.
The checksum is that of the archive whose MD5 the publisher's page gives.
"""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from pathlib import Path

import numpy as np

from workbench.datasets import npz
from workbench.datasets.dataset import Dataset, DatasetError, Labels
from workbench.datasets.fetch import Remote, fetch_for
from workbench.datasets.images import Images, scaled
from workbench.utils import files

LAYOUT = "cifar-10-batches-bin"
TRAIN_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE = "test_batch.bin"
CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_IMAGE_BYTES = 3 * 32 * 32

CIFAR10 = Remote(
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ("https://www.cs.toronto.edu/~kriz",),
)

PART = "cifar10_10k.npz"
PART_SHA256 = "9cd10bcfa6a4ab694e1c0c977d205c2187b65e8e96bca0776988bb79713c2d27"
"""10,000 training and 2,000 test images, from a copy as JPEG, so that pixels differ slightly."""


def load_part(folder: Path) -> Dataset:
    """Read the part of CIFAR-10 that recordings learn from; nobody publishes it."""
    path = folder / PART
    if not path.is_file():
        raise DatasetError(
            f"cifar10_10k is not in {folder}: {PART}, 10,000 training and 2,000 test images of "
            f"CIFAR-10 from a copy as JPEG, with the SHA-256 {PART_SHA256}. Put it there, or set "
            "WORKBENCH_DATA to its folder; the whole data set is cifar10"
        )
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != PART_SHA256:
            raise DatasetError(f"{path} is another file: its SHA-256 is not {PART_SHA256}")
    return npz.load(path)


def load(archive: Remote, folder: Path) -> Dataset:
    """Read the unpacked files of `folder`; where they are missing, fetch and unpack the archive."""
    where = folder / LAYOUT
    if not present(folder):
        packed = fetch_for(
            "cifar10", archive, folder, files=[archive], folder=folder, layout=LAYOUT
        )
        _unpack(archive, packed, where)
    batches = [_read(where / name) for name in TRAIN_FILES]
    x_train, y_train = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    x_test, y_test = _read(where / TEST_FILE)
    return Dataset("cifar10", x_train, y_train, x_test, y_test, CLASSES)


def present(folder: Path) -> bool:
    """Whether all unpacked files are in `folder`."""
    return all((folder / LAYOUT / name).is_file() for name in (*TRAIN_FILES, TEST_FILE))


def _unpack(archive: Remote, packed: Path, where: Path) -> None:
    """Write the files that are needed, each in one step, and no others."""
    advice = f"remove {packed}, and it is fetched again"
    with packed.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != archive.sha256:
            raise DatasetError(f"{packed} is damaged: its checksum is wrong; {advice}")
    try:
        with tarfile.open(packed) as members:
            for name in (*TRAIN_FILES, TEST_FILE):
                member = members.extractfile(f"{LAYOUT}/{name}")
                if member is None:
                    raise KeyError(name)
                if not (where / name).is_file():
                    files.write_bytes(where / name, member.read())
    except (KeyError, tarfile.TarError, EOFError, zlib.error) as error:
        raise DatasetError(f"{packed} is not CIFAR-10 ({error}); {advice}") from error


def _read(path: Path) -> tuple[Images, Labels]:
    """Read records of one byte of label and 3 x 32 x 32 bytes of image."""
    data = np.fromfile(path, np.uint8)
    if not data.size or data.size % (1 + _IMAGE_BYTES):
        raise DatasetError(
            f"{path} has {data.size} bytes, which are not whole records of {1 + _IMAGE_BYTES}; "
            f"remove the folder {path.parent}, and it is fetched again"
        )
    records = data.reshape(-1, 1 + _IMAGE_BYTES)
    return scaled(records[:, 1:].reshape(-1, 3, 32, 32)), records[:, 0].astype(np.int64)
