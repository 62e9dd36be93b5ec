"""MNIST, Fashion-MNIST and CIFAR-10: found in a folder, else fetched once, with their checksums.

LeCun, Cortes and Burges, "The MNIST database of handwritten digits", 1998; Xiao, Rasul and
Vollgraf, "Fashion-MNIST", 2017; Krizhevsky, "Learning multiple layers of features", 2009, in its
binary version, since the one for Python is a pickle, and unpickling a download runs code.
"""

from __future__ import annotations

import fcntl
import gzip
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.dataset import Dataset, DatasetError
from workbench.datasets.images import scaled
from workbench.utils.files import expanded, home

FOLDER_VARIABLE = "WORKBENCH_DATA"
TIMEOUT_S = 30.0

Bytes = NDArray[np.uint8]


def data_folder() -> Path:
    """Return the folder of data sets: ``$WORKBENCH_DATA``, else ``data/downloads`` of the clone.

    Without a clone that is below the current folder.

    Raises DatasetError: the variable is set to anything but a folder.
    """
    downloads = home() / "data" / "downloads"
    setting = os.environ.get(FOLDER_VARIABLE)
    if not setting:
        return downloads
    folder = expanded(setting)
    if not folder.is_dir():
        raise DatasetError(
            f"{FOLDER_VARIABLE}={setting} is not a folder; create it, or unset the variable to use "
            f"{downloads}"
        )
    return folder


@dataclass(frozen=True)
class Published:
    """A data set on the network.

    Attributes
    ----------
    name, title, classes
        Its own name, that in charts, and those of its classes.
    layout
        Folder of its files, below the data folder.
    files
        Files that `read` makes images and labels of: to train on, then to test on. Packed ones
        (``.gz``) may be there unpacked.
    mirrors
        URLs of folders, tried in turn.
    sha256
        Checksum of each file that is fetched: of all `files`, or of one archive of them, which is
        unpacked in the data folder.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    layout: str
    files: tuple[str, ...]
    read: Callable[[Sequence[Path]], tuple[Bytes, Bytes, Bytes, Bytes]]
    mirrors: tuple[str, ...]
    sha256: Mapping[str, str]

    def present(self, folder: Path) -> bool:
        """Whether all files are in a data folder."""
        return all(self._copy(folder, name) for name in self.files)

    def load(self, folder: Path) -> Dataset:
        """Read the files of a data folder, after fetching those that are missing."""
        if not self.present(folder):
            self._fetch(folder)
        paths = [path for name in self.files if (path := self._copy(folder, name))]
        x_train, y_train, x_test, y_test = self.read(paths)
        return Dataset(
            self.name,
            *(scaled(x_train), y_train.astype(np.int64)),
            *(scaled(x_test), y_test.astype(np.int64)),
            self.classes,
        )

    def _copy(self, folder: Path, name: str) -> Path | None:
        places = (folder / self.layout / n for n in (name.removesuffix(".gz"), name))
        return next((path for path in places if path.is_file()), None)

    def _fetch(self, folder: Path) -> None:
        """Fetch what is missing; however many processes ask, the others wait for one of them."""
        import pooch

        missing = [name for name in self.files if not self._copy(folder, name)]
        into, unpack = folder / self.layout, None
        if not self.sha256.keys() >= set(self.files):  # an archive
            missing, into = list(self.sha256), folder
            unpack = pooch.Untar([f"{self.layout}/{name}" for name in self.files], extract_dir="")
        try:
            with _alone(into):
                for name in missing:
                    _retrieve(self.mirrors, name, self.sha256[name], into, unpack)
        except OSError as error:
            why = f"{into} cannot be written to: {error}"
        except DatasetError as error:
            why = str(error)
        else:
            return
        raise DatasetError(
            f"data set {self.name!r} is not in {folder / self.layout} and cannot be fetched "
            f"({why}). Go online and try again; or put {' and '.join(self.sha256)} from "
            f"{self.mirrors[0]} into {into}; or set {FOLDER_VARIABLE} to a folder that holds "
            f"{self.layout}; or use 'digits' or 'cluttered_digits', which need no network"
        )


def _retrieve(
    mirrors: Sequence[str], name: str, sha256: str, into: Path, processor: object
) -> None:
    """Fetch a file, from the first mirror that has it, whole or not at all."""
    import pooch
    import requests

    failures = []
    for base in mirrors:
        try:
            pooch.retrieve(
                f"{base}/{name}",
                known_hash=f"sha256:{sha256}",
                fname=name,
                path=into,
                processor=processor,
                downloader=pooch.HTTPDownloader(chunk_size=1 << 16, timeout=TIMEOUT_S),
            )
        except requests.HTTPError as error:
            failures.append(str(error))
        except requests.RequestException:
            failures.append(f"{base}/{name}: no connection, or it broke off")
        except ValueError:
            failures.append(f"{base}/{name}: damaged, or another file: its checksum is wrong")
        else:
            (into / name).chmod(0o644)
            return
    raise DatasetError("; ".join(failures))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other thread or process fetches into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_idx(paths: Sequence[Path]) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Read four IDX files, of images and labels in turn."""
    x_train, y_train, x_test, y_test = map(_read_idx, paths, (3, 1, 3, 1))
    return x_train[:, None], y_train, x_test[:, None], y_test


def _read_idx(path: Path, axes: int) -> Bytes:
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


def read_cifar(paths: Sequence[Path]) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Read files of records, a byte of label and 3 x 32 x 32 of image; the last is to test on."""
    parts = []
    for path in paths:
        data = np.fromfile(path, np.uint8)
        if not data.size or data.size % 3073:
            raise DatasetError(
                f"{path} has {data.size} bytes, which are not whole records of 3073; "
                f"remove the folder {path.parent}, and it is fetched again"
            )
        parts.append(data.reshape(-1, 3073))
    train, test = np.concatenate(parts[:-1]), parts[-1]
    x_train, x_test = (part[:, 1:].reshape(-1, 3, 32, 32) for part in (train, test))
    return x_train, train[:, 0], x_test, test[:, 0]


IDX_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)

MNIST = Published(
    "mnist",
    "MNIST",
    tuple("0123456789"),
    "MNIST/raw",
    IDX_FILES,
    read_idx,
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    {
        IDX_FILES[0]: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        IDX_FILES[1]: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        IDX_FILES[2]: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        IDX_FILES[3]: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
)

FASHION_MNIST = Published(
    "fashion_mnist",
    "Fashion-MNIST",
    (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    "FashionMNIST/raw",
    IDX_FILES,
    read_idx,
    ("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",),
    {
        IDX_FILES[0]: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        IDX_FILES[1]: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        IDX_FILES[2]: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        IDX_FILES[3]: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
)

CIFAR10 = Published(
    "cifar10",
    "CIFAR-10",
    (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
    "cifar-10-batches-bin",
    (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"),
    read_cifar,
    ("https://www.cs.toronto.edu/~kriz",),
    # The archive whose MD5 the publisher's page gives.
    {
        "cifar-10-binary.tar.gz": (
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
        )
    },
)
