"""Data sets from a server that may break: whole, once, or not at all."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.datasets.conftest import cifar_records, idx
from tests.datasets.server import Server
from workbench.datasets import DatasetError, load
from workbench.datasets.catalogue import SOURCES, published
from workbench.datasets.published import CIFAR10, IDX_FILES, MNIST, Published

IMAGES = IDX_FILES[0]


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.usefixtures("small_mnist")
class TestIdxFiles:
    @pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
    def test_are_fetched_once_into_the_usual_layout(
        self, name: str, server: Server, arrays: list[NDArray[np.uint8]], tmp_path: Path
    ) -> None:
        for _ in range(2):
            got = load(name, folder=tmp_path)
            np.testing.assert_array_equal(np.rint(got.x_train * 255)[:, 0], arrays[0])
            np.testing.assert_array_equal(got.y_train, arrays[1])
            np.testing.assert_array_equal(np.rint(got.x_test * 255)[:, 0], arrays[2])
            np.testing.assert_array_equal(got.y_test, arrays[3])
            assert got.x_train.max() == 1
        assert dict(server.asked) == dict.fromkeys(IDX_FILES, 1)
        layout = {"mnist": "MNIST/raw", "fashion_mnist": "FashionMNIST/raw"}[name]
        assert visible(tmp_path / layout) == set(IDX_FILES)
        assert (tmp_path / layout / IMAGES).stat().st_mode & 0o777 == 0o644

    @pytest.mark.parametrize("packed", [True, False])
    def test_in_place_are_used_as_they_are(
        self, packed: bool, server: Server, arrays: list[NDArray[np.uint8]], tmp_path: Path
    ) -> None:
        raw = tmp_path / "MNIST/raw"
        raw.mkdir(parents=True)
        for name, array in zip(IDX_FILES, arrays, strict=True):
            data = gzip.compress(idx(array), 1) if packed else idx(array)
            (raw / (name if packed else name.removesuffix(".gz"))).write_bytes(data)
        raw.chmod(0o555)
        got = load("mnist", folder=tmp_path)
        np.testing.assert_array_equal(got.y_test, arrays[3])
        assert not server.asked

    @pytest.mark.parametrize(
        ("fault", "refusal"), [("truncated", "broke off"), ("corrupted", "checksum")]
    )
    def test_broken_on_the_way_leave_nothing_and_come_whole_next_time(
        self, fault: str, refusal: str, server: Server, tmp_path: Path
    ) -> None:
        server.faults[IMAGES] = fault
        with pytest.raises(DatasetError, match=refusal):
            load("mnist", folder=tmp_path)
        assert visible(tmp_path) == set()
        server.faults.clear()
        assert len(load("mnist", folder=tmp_path).y_train) == 40

    def test_second_mirror_is_asked_when_the_first_fails(
        self, server: Server, small_mnist: Published, tmp_path: Path
    ) -> None:
        mirrors = (f"{server.url}/elsewhere", server.url)
        assert len(replace(small_mnist, mirrors=mirrors).load(tmp_path).y_train) == 40
        assert server.asked[f"elsewhere/{IMAGES}"] == server.asked[IMAGES] == 1

    def test_many_at_once_fetch_once(self, server: Server, tmp_path: Path) -> None:
        with ThreadPoolExecutor(8) as pool:
            sums = list(pool.map(lambda _: load("mnist", folder=tmp_path).x_test.sum(), range(8)))
        assert len(set(sums)) == 1
        assert dict(server.asked) == dict.fromkeys(IDX_FILES, 1)

    def test_no_mirror_and_no_copy_is_one_error_that_says_what_to_do(
        self, server: Server, tmp_path: Path
    ) -> None:
        del server.files[IMAGES]
        with pytest.raises(DatasetError) as raised:
            load("mnist", folder=tmp_path)
        message = str(raised.value)
        for advice in (
            "'mnist'",
            str(tmp_path / "MNIST/raw"),
            f"404 Client Error: Not Found for url: {server.url}/{IMAGES}",
            "WORKBENCH_DATA",
            "'digits'",
        ):
            assert advice in message

    @pytest.mark.parametrize("damage", ["truncated", "flipped", "shorter", "other", "empty"])
    def test_damaged_in_place_are_refused_and_not_replaced(
        self, damage: str, server: Server, arrays: list[NDArray[np.uint8]], tmp_path: Path
    ) -> None:
        load("mnist", folder=tmp_path)
        path = tmp_path / "MNIST/raw" / IMAGES
        whole = path.read_bytes()
        middle = len(whole) // 2
        damaged = {
            "truncated": whole[:middle],
            "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "shorter": gzip.compress(idx(arrays[0])[:-1]),
            "other": gzip.compress(idx(arrays[1])),
            "empty": b"",
        }[damage]
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=f"{IMAGES}.*remove it, and it is fetched again"):
            load("mnist", folder=tmp_path)
        assert path.read_bytes() == damaged
        path.unlink()
        assert len(load("mnist", folder=tmp_path).y_train) == 40


def published_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """MNIST, with its true checksums, at another address."""
    monkeypatch.setitem(SOURCES, "mnist", published(replace(MNIST, mirrors=(url,))))


def test_other_data_under_the_true_name_are_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published_at(server.url, monkeypatch)
    images = np.zeros((3, 28, 28), np.uint8)
    server.files = {name: gzip.compress(idx(images)) for name in IDX_FILES}
    with pytest.raises(DatasetError, match="its checksum is wrong"):
        load("mnist", folder=tmp_path)
    assert visible(tmp_path) == set()


def test_without_network_or_place_the_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published_at("http://127.0.0.1:9", monkeypatch)
    with pytest.raises(DatasetError, match="no connection"):
        load("mnist", folder=tmp_path)
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "MNIST").write_text("in the way")
    with pytest.raises(DatasetError, match="cannot be written to"):
        load("mnist", folder=tmp_path / "place")


class TestCifar10:
    def test_is_fetched_once_and_unpacked(
        self, small_cifar: str, server: Server, tmp_path: Path
    ) -> None:
        for _ in range(2):
            got = load("cifar10", folder=tmp_path)
            records = np.concatenate([cifar_records(4, seed) for seed in range(5)])
            np.testing.assert_array_equal(got.y_train, records[:, 0])
            images = np.rint(got.x_train * 255).reshape(20, 3072)
            np.testing.assert_array_equal(images, records[:, 1:])
            np.testing.assert_array_equal(got.y_test, cifar_records(4, 5)[:, 0])
            assert got.input_shape == (3, 32, 32)
            assert got.classes[2] == "bird"
        assert server.asked == {small_cifar: 1}
        assert visible(tmp_path / CIFAR10.layout) == set(CIFAR10.files)

    @pytest.mark.usefixtures("small_cifar")
    def test_unpacked_in_place_is_used_as_it_is(self, server: Server, tmp_path: Path) -> None:
        folder = tmp_path / CIFAR10.layout
        folder.mkdir()
        for name in CIFAR10.files:
            (folder / name).write_bytes(bytes(cifar_records(2, 9)))
        assert len(load("cifar10", folder=tmp_path).y_train) == 10
        assert not server.asked

    def test_interrupted_unpacking_is_done_again(
        self, small_cifar: str, server: Server, tmp_path: Path
    ) -> None:
        load("cifar10", folder=tmp_path)
        (tmp_path / CIFAR10.layout / CIFAR10.files[-1]).unlink()
        assert len(load("cifar10", folder=tmp_path).y_test) == 4
        assert server.asked == {small_cifar: 1}

    def test_damaged_archive_is_fetched_again(
        self, small_cifar: str, server: Server, tmp_path: Path
    ) -> None:
        (tmp_path / small_cifar).write_bytes(server.files[small_cifar][:-100])
        assert len(load("cifar10", folder=tmp_path).y_test) == 4
        assert server.asked == {small_cifar: 1}

    @pytest.mark.parametrize(
        ("data", "refusal"),
        [
            (bytes(3072), "3072 bytes, which are not whole records of 3073"),
            (b"", "0 bytes"),
            (b"\x0a" + bytes(3072), "labels from"),
        ],
    )
    @pytest.mark.usefixtures("small_cifar")
    def test_broken_records_are_refused(self, data: bytes, refusal: str, tmp_path: Path) -> None:
        load("cifar10", folder=tmp_path)
        (tmp_path / CIFAR10.layout / "data_batch_3.bin").write_bytes(data)
        with pytest.raises(DatasetError, match=refusal):
            load("cifar10", folder=tmp_path)
