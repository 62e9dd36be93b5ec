"""Cluttered digits: the same bytes everywhere, no digit in both parts, hard but learnable."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from workbench import datasets
from workbench.datasets import Dataset, DatasetError, cluttered_digits, digits
from workbench.zoo import MODELS

SHA256 = "1ef416cd0d11b4d50f0ae14ba5af28a6de6a390bb5db13c446fc4f8cc1b6cce9"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    datasets.load("cluttered_digits", folder=folder)
    return folder


@pytest.fixture(scope="module")
def cluttered(folder: Path) -> Dataset:
    return datasets.load("cluttered_digits", folder=folder)


def test_the_bytes_are_the_same_with_the_plainest_kernels_of_numpy() -> None:
    """Those with this machine's are compared with the checksum whenever they are loaded."""
    assert cluttered_digits.SHA256 == SHA256
    code = (
        "import hashlib; from workbench.datasets import cluttered_digits;"
        "print(hashlib.sha256(cluttered_digits.make()).hexdigest())"
    )
    disabled = {"NPY_DISABLE_CPU_FEATURES": "X86_V3,X86_V4,AVX512_ICL,AVX512_SPR"}
    made = subprocess.check_output(
        [sys.executable, "-c", code], text=True, env=os.environ | disabled
    )
    assert made.strip() == SHA256


def test_holds_what_it_says(cluttered: Dataset) -> None:
    assert cluttered.x_train.shape == (10_000, 1, 28, 28)
    assert cluttered.x_test.shape == (2_000, 1, 28, 28)
    assert cluttered.input_shape == MODELS["lenet5"].input_shape
    assert (cluttered.x_train.min(), cluttered.x_train.max()) == (0, 1)
    for labels, least in ((cluttered.y_train, 960), (cluttered.y_test, 190)):
        assert np.bincount(labels).min() > least
    images = np.concatenate([cluttered.x_train, cluttered.x_test]).reshape(12_000, -1)
    assert len(np.unique(images, axis=0)) == 12_000


def test_no_test_image_comes_from_a_digit_to_train_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """With black digits to train on and white ones to test, no part has a pixel of the other."""
    plain = datasets.load("digits")
    black, white = np.zeros_like(plain.x_train), np.ones_like(plain.x_test)
    parts = Dataset("plain", black, plain.y_train, white, plain.y_test, plain.classes)
    monkeypatch.setattr(digits, "load", lambda: parts)
    for name, value in (("_NOISE", 0), ("TRAIN", 1_500), ("TEST", 400)):  # each digit at least once
        monkeypatch.setattr(cluttered_digits, name, value)
    records = np.frombuffer(cluttered_digits.make(), np.uint8).reshape(1_900, -1)
    assert not records[:1_500, 1:].any()
    assert (records[1_500:, 1:].max(axis=1) == 255).all()
    assert set(plain.y_test[np.arange(400) % 355] == records[1_500:, 0]) == {True}


def test_a_digit_stays_upright_where_nothing_distorts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enlarged 2.5 times about its centre: what linear interpolation makes of it, to one level."""
    plainest = {"HALF_TURN": 0, "SHEAR": 0, "SIZE": (20, 20), "SHIFT": 0, "PIECES": 0, "NOISE": 0}
    for name, value in plainest.items():
        monkeypatch.setattr(cluttered_digits, f"_{name}", value)
    monkeypatch.setattr(cluttered_digits, "TRAIN", 10)
    monkeypatch.setattr(cluttered_digits, "TEST", 10)
    plain = datasets.load("digits").x_train[7, 0]
    records = np.frombuffer(cluttered_digits.make(), np.uint8).reshape(20, -1)
    image = records[7, 1:].reshape(28, 28)
    at = (np.arange(28) - 13.5) / 2.5 + 3.5
    rows = np.stack([np.interp(at, range(-1, 9), [0, *row, 0]) for row in plain])
    expected = np.stack([np.interp(at, range(-1, 9), [0, *row, 0]) for row in rows.T], axis=1)
    assert np.abs(image - 255 * expected).max() < 4  # a 256th of a pixel, of at most 255 a pixel


def test_is_made_once(folder: Path, cluttered: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cluttered_digits, "make")
    again = datasets.load("cluttered_digits", folder=folder)
    np.testing.assert_array_equal(again.x_test, cluttered.x_test)
    assert [path.name for path in folder.iterdir()] == [cluttered_digits.FILE]


def test_damaged_file_is_made_again(tmp_path: Path, folder: Path, cluttered: Dataset) -> None:
    whole = (folder / cluttered_digits.FILE).read_bytes()
    file = tmp_path / cluttered_digits.FILE
    file.write_bytes(whole[:-1])
    again = datasets.load("cluttered_digits", folder=tmp_path)
    np.testing.assert_array_equal(again.x_train, cluttered.x_train)
    assert file.read_bytes() == whole


def test_needs_no_place_to_keep_it(tmp_path: Path, cluttered: Dataset) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    again = datasets.load("cluttered_digits", folder=blocked)
    np.testing.assert_array_equal(again.y_train, cluttered.y_train)


def test_other_digits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluttered_digits, "make", lambda: b"other")
    name = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(DatasetError, match=rf"checksum {name}, not {SHA256}.*locked packages"):
        datasets.load("cluttered_digits", folder=tmp_path)
    assert not list(tmp_path.iterdir())
