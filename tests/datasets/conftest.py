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
from workbench.datasets.catalogue import SOURCES, published
from workbench.datasets.published import CIFAR10, FASHION_MNIST, IDX_FILES, MNIST, Published
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
) -> Published:
    """`mnist` and `fashion_mnist` are these arrays, published by the server."""
    files = {name: gzip.compress(idx(one)) for name, one in zip(IDX_FILES, arrays, strict=True)}
    server.files |= files
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    for data in (FASHION_MNIST, MNIST):
        small = replace(data, mirrors=(server.url,), sha256=sums)
        monkeypatch.setitem(SOURCES, data.name, published(small))
    return small


def cifar_records(count: int, seed: int) -> NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    records = rng.integers(0, 256, (count, 3073), dtype=np.uint8)
    records[:, 0] %= 10
    return records


@pytest.fixture
def small_cifar(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """`cifar10` is an archive of six files of four images each, published by the server."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for seed, name in enumerate((*CIFAR10.files, "readme.html")):
            data = bytes(cifar_records(4, seed))
            member = tarfile.TarInfo(f"{CIFAR10.layout}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    (name,) = CIFAR10.sha256
    server.files[name] = packed.getvalue()
    sums = {name: hashlib.sha256(packed.getvalue()).hexdigest()}
    small = replace(CIFAR10, mirrors=(server.url,), sha256=sums)
    monkeypatch.setitem(SOURCES, "cifar10", published(small))
    return name
