"""ImageNet 8x8 from small files in its true layout, and the refusal of every broken one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from workbench.datasets import Dataset, DatasetError, imagenet8, load

EACH = 3
NAMES = (*imagenet8.TRAIN_FILES, imagenet8.TEST_FILE)
REGISTER = r"register at https://image-net\.org.*Imagenet8_train_npz\.zip.*WORKBENCH_DATA"


def batch(seed: int, count: int = EACH) -> dict[str, NDArray[Any]]:
    """What one of the files holds: the mean is there, of floats."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (count, 192), dtype=np.uint8)
    labels = rng.integers(1, 1001, count)
    labels[:2] = [1, 1000][:count]
    return {"data": data, "labels": labels, "mean": data.sum(axis=0) / 9}


def write(folder: Path, **changed: Any) -> Path:
    """Write all files into one folder; `changed` replaces arrays of batch 4, None drops one."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(NAMES):
        arrays = batch(seed) | (changed if name == NAMES[3] else {})
        np.savez(
            folder / name, **{key: array for key, array in arrays.items() if array is not None}
        )
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "own")


class TestFound:
    def check(self, data: Dataset) -> None:
        assert data.name == "imagenet8"
        assert data.input_shape == (3, 8, 8)
        assert (len(data.y_train), len(data.y_test)) == (10 * EACH, EACH)

    @pytest.mark.parametrize("suffix", ["", "_npz"])
    def test_as_the_archives_unpack(self, folder: Path, suffix: str) -> None:
        for within, names in (("train", NAMES[:10]), ("val", NAMES[10:])):
            (folder / f"Imagenet8_{within}{suffix}").mkdir()
            for name in names:
                (folder / name).rename(folder / f"Imagenet8_{within}{suffix}" / name)
        self.check(load(folder))

    def test_by_path(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder.parent)
        monkeypatch.setenv("HOME", str(folder.parent))
        for path in (folder, "own", "~/own"):
            self.check(load(path))

    def test_by_name(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.rename(folder.parent / "imagenet8")
        self.check(load("imagenet8", folder=folder.parent))
        monkeypatch.setenv("WORKBENCH_DATA", str(folder.parent))
        self.check(load("imagenet8"))

    def test_a_name_is_no_folder(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.rename(folder.parent / "digits")
        monkeypatch.chdir(folder.parent)
        assert load("digits").name == "digits"
        self.check(load("./digits"))


def test_images_and_labels_are_those_of_the_files_in_order(folder: Path) -> None:
    data = load(folder)
    for seed in range(10):
        raw, own = batch(seed), slice(seed * EACH, (seed + 1) * EACH)
        # A pixel's channels lie 64 bytes apart, row after row.
        for at, image in enumerate(data.x_train[own]):
            for channel, row, column in np.ndindex(3, 8, 8):
                byte = raw["data"][at, 64 * channel + 8 * row + column]
                assert image[channel, row, column] == np.float32(byte) / np.float32(255)
        np.testing.assert_array_equal(data.y_train[own], raw["labels"] - 1)
    assert (data.y_test.min(), data.y_test.max()) == (0, 999)
    assert (data.classes[0], data.classes[-1], len(data.classes)) == ("1", "1000", 1000)


class TestRefused:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"labels": None}, "has no labels; a data set has the arrays data, labels"),
            ({"labels": np.array([1.0, 2.0, 3.0])}, "labels is float64"),
            ({"labels": np.array([[1, 2, 3]])}, r"labels is int64 of shape \(1, 3\)"),
            ({"labels": np.zeros(0, int), "data": batch(0, 0)["data"]}, r"of shape \(0,\)"),
            ({"labels": np.array([1, 2])}, r"for 2 labels it must be uint8 of shape \(2, 192\)"),
            ({"data": batch(3)["data"] / 255}, "data is float64"),
            ({"data": batch(3)["data"].repeat(16, 1)}, r"of shape \(3, 3072\).*8 x 8 pixels"),
            ({"labels": np.array([1, 2, 3], object)}, "not an .npz file of plain arrays"),
        ],
    )
    def test_batch_of_something_else(
        self, tmp_path: Path, changed: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(DatasetError, match=rf"train_data_batch_4\.npz.*{message}"):
            load(write(tmp_path, **changed))

    @pytest.mark.parametrize("label", [0, 1001])
    def test_label_that_no_class_has(self, tmp_path: Path, label: int) -> None:
        with pytest.raises(DatasetError, match=r"labels from .*, but there are 1000 classes"):
            load(write(tmp_path, labels=np.array([1, 2, label])))

    def test_missing_files(self, folder: Path) -> None:
        (folder / "train_data_batch_3.npz").unlink()
        (folder / "val_data.npz").unlink()
        with pytest.raises(
            DatasetError, match=rf"no train_data_batch_3\.npz, val_data\.npz; .*{REGISTER}"
        ):
            load(folder)

    def test_no_such_folder(self, tmp_path: Path) -> None:
        for path in (tmp_path / "none", str(tmp_path / "none")):
            with pytest.raises(DatasetError, match=r"none is no \.npz file and no folder"):
                load(path)
