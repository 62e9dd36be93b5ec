"""Small stand-ins for the data sets on the network, in their true formats."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.datasets.server import Server, serving
from workbench.datasets import cifar10, mnist
from workbench.datasets.fetch import Remote
from workbench.utils.files import ROOT

REAL = ROOT.parent / "shared" / "data"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as running:
        yield running


def idx(array: NDArray[np.uint8]) -> bytes:
    return (
        bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + bytes(array)
    )


@pytest.fixture
def arrays() -> list[NDArray[np.uint8]]:
    """Images and labels to train on, then to test on, in the order of the files."""
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, (count, 28, 28), dtype=np.uint8) for count in (40, 15)]
    labels = [rng.integers(0, 10, count, dtype=np.uint8) for count in (40, 15)]
    return [images[0], labels[0], images[1], labels[1]]


@pytest.fixture
def small_mnist(
    server: Server, arrays: list[NDArray[np.uint8]], monkeypatch: pytest.MonkeyPatch
) -> mnist.IdxSource:
    """`mnist` and `fashion_mnist` are these arrays, published by the server."""
    files = {
        name: gzip.compress(idx(array)) for name, array in zip(mnist.FILES, arrays, strict=True)
    }
    server.files |= files
    a, b, c, d = (hashlib.sha256(data).hexdigest() for data in files.values())
    changed = {"mirrors": (server.url,), "sha256": (a, b, c, d)}
    for name in ("MNIST", "FASHION_MNIST"):
        monkeypatch.setattr(mnist, name, replace(getattr(mnist, name), **changed))
    return mnist.MNIST


def cifar_records(count: int, seed: int) -> NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    records = rng.integers(0, 256, (count, 3073), dtype=np.uint8)
    records[:, 0] %= 10
    return records


@pytest.fixture
def small_cifar(server: Server, monkeypatch: pytest.MonkeyPatch) -> Remote:
    """`cifar10` is six files of four images each, published by the server."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for seed, name in enumerate((*cifar10.TRAIN_FILES, cifar10.TEST_FILE, "readme.html")):
            data = bytes(cifar_records(4, seed))
            member = tarfile.TarInfo(f"{cifar10.LAYOUT}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    server.files[cifar10.CIFAR10.name] = packed.getvalue()
    checksum = hashlib.sha256(packed.getvalue()).hexdigest()
    small = Remote(cifar10.CIFAR10.name, checksum, (server.url,))
    monkeypatch.setattr(cifar10, "CIFAR10", small)
    return small
