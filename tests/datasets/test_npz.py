"""Users' own files: what is accepted, and the refusal of every broken one."""

from __future__ import annotations

import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.datasets import Dataset, DatasetError, load, npz

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)
GOOD: dict[str, Any] = {
    "x_train": PIXELS,
    "y_train": np.array([0, 1, 2, 0, 1, 2], np.uint8),
    "x_test": PIXELS[:4],
    "y_test": np.array([3, 1, 0, 0], np.uint8),
}


def read(tmp_path: Path, **changed: Any) -> Dataset:
    path = tmp_path / "own.npz"
    np.savez(path, **{key: a for key, a in {**GOOD, **changed}.items() if a is not None})
    return load(path)


def test_bytes_are_scaled_and_channels_moved(tmp_path: Path) -> None:
    own = read(tmp_path)
    assert own.name == "own"
    assert own.x_train.dtype == np.float32
    assert own.y_train.dtype == np.int64
    np.testing.assert_allclose(own.x_train, PIXELS.transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    assert own.classes == ("0", "1", "2", "3")


def test_grey_images_get_a_channel(tmp_path: Path) -> None:
    own = read(tmp_path, x_train=PIXELS[..., 0], x_test=PIXELS[:4, ..., 1])
    assert own.input_shape == (1, 5, 7)
    np.testing.assert_allclose(own.x_test[:, 0], PIXELS[:4, ..., 1] / 255, rtol=1e-6)


def test_floats_are_taken_as_they_are_and_channels_found_first(tmp_path: Path) -> None:
    x = RNG.normal(size=(6, 3, 5, 7))
    own = read(tmp_path, x_train=x, x_test=x[:4])
    np.testing.assert_array_equal(own.x_train, x.astype(np.float32))


def test_a_column_of_labels_is_labels(tmp_path: Path) -> None:
    own = read(tmp_path, y_train=GOOD["y_train"][:, None])
    np.testing.assert_array_equal(own.y_train, GOOD["y_train"])


def test_whole_numbers_are_tokens_with_a_label_each_or_one(tmp_path: Path) -> None:
    x, y = np.arange(12, dtype=np.int32).reshape(6, 2), np.full((6, 2), -100, np.int16)
    y[:, 1] = 3
    own = read(tmp_path, x_train=x, x_test=x[:4], y_train=y, y_test=abs(y[:4]) % 12)
    assert (str(*own.inputs), len(own.classes)) == ("int64[2]", 12)
    np.testing.assert_array_equal(own.y_train, y)
    assert len(read(tmp_path, x_train=x, x_test=x[:4]).classes) == 4
    with pytest.raises(
        DatasetError, match="x_train has numbers from -1 to 10; tokens and labels are from"
    ):
        read(tmp_path, x_train=x - 1, x_test=x[:4])
    with pytest.raises(
        DatasetError, match="to 4611686018427387904; tokens and labels are from 0 to 999,999"
    ):
        read(tmp_path, x_train=x.astype(np.int64) + 2**62 - 11, x_test=x[:4], y_train=y)


def holed(value: float) -> Any:
    x = np.ones((6, 5, 7, 3))
    x[2, 1, 1, 0] = value
    return x


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x_test": None, "y_test": None}, "has no x_test, y_test; a data set has the arrays"),
        ({"x_train": PIXELS.astype(np.int64)}, "x_train is int64; images are uint8"),
        ({"x_train": PIXELS > 9}, "x_train is bool"),
        ({"x_train": PIXELS.astype(np.complex64)}, "x_train is complex64"),
        ({"x_train": PIXELS[0, 0]}, r"x_train has shape \(7, 3\)"),
        ({"x_train": PIXELS.repeat(3, 3).repeat(2, 1)}, r"x_train has shape \(6, 10, 7, 9\)"),
        ({"x_train": PIXELS[:0], "y_train": GOOD["y_train"][:0]}, "at least one"),
        ({"x_test": PIXELS[:4, :4]}, r"float32\[3,5,7\] in x_train, but float32\[3,4,7\]"),
        ({"x_train": holed(1e300)}, "x_train holds NaN or infinite"),
        (
            {"y_train": GOOD["y_train"][:5]},
            r"y_train is int64 of shape .5,.; .* each of the 6 samples",
        ),
        ({"y_train": GOOD["y_train"].astype(float)}, "y_train is float64"),
        ({"y_train": np.eye(6, dtype=np.uint8)}, r"y_train is uint8 of shape \(6, 6\)"),
        ({"y_train": np.array([0, 1, -1, 0, 0, 0])}, "y_train has numbers from -1 to 1"),
        ({"y_train": np.array(list("abcdef"))}, "y_train is <U1"),
        ({"y_train": np.array(list("abcdef"), object)}, "not an .npz file of plain arrays"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changed: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read(tmp_path, **changed)


@pytest.mark.parametrize("kept", [0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: float) -> None:
    read(tmp_path)
    path = tmp_path / "own.npz"
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(DatasetError, match=r"own\.npz"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x80\x04N."])
def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"own\.npz"):
        load(path)


def test_an_array_alone_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "own.npz").open("wb") as file:
        np.save(file, PIXELS)
    with pytest.raises(DatasetError, match=r"not an \.npz file"):
        load(tmp_path / "own.npz")


def npy(shape: str, data: bytes = b"", *, dtype: str = "|u1") -> bytes:
    """Bytes of an array whose header may say anything."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("(1000000000000,)", b"abc"), "not an .npz file"),
        (npy("(-3,)", b"abc"), "not an .npz file"),
        (npy("(3,)", b"abc", dtype="O"), "not an .npz file of plain arrays$"),
        (npy("(" * 5000 + ")" * 5000), "not an .npz file"),
        (pickle.dumps({"a": 1}), "x_train is |S"),
        (b"", "x_train is |S1"),
        (npy("(3,)", b"abc", dtype="|V1"), "x_train is |V1"),
    ],
    ids=range(7),
)
def test_array_of_a_stranger_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    np.savez(tmp_path / "own.npz", **{key: GOOD[key] for key in GOOD if key != "x_train"})
    with zipfile.ZipFile(tmp_path / "own.npz", "a") as file:
        file.writestr("x_train.npy", content)
    with pytest.raises(DatasetError, match=message):
        load(tmp_path / "own.npz")


def test_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(array.nbytes + 128 for array in GOOD.values())
    monkeypatch.setattr(npz, "MOST_BYTES", size)
    read(tmp_path)
    monkeypatch.setattr(npz, "MOST_BYTES", size - 1)
    with pytest.raises(DatasetError, match="unpacks to 0 MB; at most 0 MB are read"):
        read(tmp_path)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such file"):
        load(str(tmp_path / "none.npz"))
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(DatasetError, match="cannot be read"):
        load(tmp_path / "folder.npz")
    with pytest.raises(DatasetError, match=r"is no \.npz file"):
        load(tmp_path / "digits")
