"""Files, written whole or not at all; the folders of data, notebooks and results."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import polars as pl


_PACKAGE = Path(str(resources.files("workbench"))).resolve()
INSTALLED = (_PACKAGE / "data").is_dir()
"""Whether this is an installed wheel, which holds its data and notebooks, and not a clone."""

ROOT = _PACKAGE if INSTALLED else _PACKAGE.parent
"""Folder of ``data/`` and ``notebooks/``: the clone, or the installed package."""

DATA = ROOT / "data"
NOTEBOOKS = ROOT / "notebooks"

MOST_TEXT = 50_000_000
"""Characters of a user's file of text, unless another bound is given."""


def home() -> Path:
    """Folder that results, figures and downloads go below: the clone, or the current folder."""
    return Path.cwd() if INSTALLED else ROOT


def check_not_installed(path: Path) -> None:
    """Refuse to write below the data of an installed package."""
    if INSTALLED and Path(os.path.realpath(path)).is_relative_to(ROOT):
        raise UserError(
            f"{path} is part of the installed package: name another folder, or work in a clone of "
            "the repository"
        )


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path that a user gave, with ``~`` as the home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(f"{path}: there is no home folder of that user") from None


def read_text(path: str | os.PathLike[str], most: int = MOST_TEXT) -> str:
    """Text of a user's file in UTF-8, with ``~`` expanded; raises UserError if it cannot be read.

    A byte order mark is left out. More than `most` characters are refused.
    """
    try:
        with expanded(path).open(encoding="utf-8-sig") as file:
            text = file.read(most + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text in UTF-8; save it in that encoding") from None
    if len(text) > most:
        raise UserError(f"{path} is too long; it must have at most {most:,} characters")
    return text


def check_output(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before its content is computed.

    Raises UserError: its folder is missing or does not take a few kilobytes, or it is a folder.
    """
    if path is None:
        return
    place = expanded(path)
    try:
        if place.is_dir():
            raise UserError(f"{option} {path}: this is a folder; give a file")
        if _is_device(place):
            return
        target = Path(os.path.realpath(place))
        if not target.parent.is_dir():
            raise UserError(f"{option} {path}: there is no folder {target.parent}")
        with _part(target) as part:
            part.write_bytes(bytes(4096))
    except OSError as error:
        raise UserError(f"{option} {path}: it cannot be written there ({error.strerror})") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one step: readers see the old file or the new, never a part.

    Folders are made and links followed. A device or pipe is written to directly.

    Raises OSError: the file cannot be written. The error names `path`.
    Raises UserError: it would be part of an installed package.
    """
    place = expanded(path)
    check_not_installed(place)
    try:
        if _is_device(place):
            place.write_bytes(data)
            return
        target = Path(os.path.realpath(place))
        target.parent.mkdir(parents=True, exist_ok=True)
        with _part(target) as part:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.chmod(0o644)
            part.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path` in one step; see `write_bytes`."""
    write_bytes(path, text.encode())


def write_parquet(path: Path, frame: pl.DataFrame, **about: object) -> None:
    """Write a frame and what is said `about` it to `path` in one step; see `write_bytes`.

    The metadata hold a SHA-256: that of the file with zeros in its place.
    """
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={"workbench": json.dumps({**about, "sha256": _ZEROS})})
    head, mark, tail = buffer.getvalue().rpartition(_MARK + _ZEROS.encode())
    digest = hashlib.sha256(head + mark + tail).hexdigest()
    write_bytes(path, head + _MARK + digest.encode() + tail)


def read_parquet(path: str | os.PathLike[str]) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return a frame, and what `write_parquet` was told about it; nothing for another's file.

    Nothing is parsed before its digest is found right, since a damaged file may end the process.
    A file without one is read as it is.

    Raises UserError: the file cannot be read, is damaged, or is not in the parquet format.
    """
    import polars as pl

    try:
        if _is_device(place := expanded(path)):  # which may never end
            raise UserError(f"{path} is a device or a pipe; give a file")
        data = place.read_bytes()
        head, mark, tail = data.rpartition(_MARK)
        digest, tail = tail[: len(_ZEROS)], tail[len(_ZEROS) :]
        whole = hashlib.sha256(head + mark + _ZEROS.encode() + tail).hexdigest().encode()
        if mark and digest != whole:
            raise UserError(f"{path} is damaged: it is no longer what was written")
        about = json.loads(pl.read_parquet_metadata(io.BytesIO(data)).get("workbench", "{}"))
        about.pop("sha256", None)
        return pl.read_parquet(io.BytesIO(data)), about
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except UserError:
        raise
    except (ValueError, AttributeError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise UserError(f"{path} is damaged, or not a parquet file") from None


_MARK, _ZEROS = b'"sha256": "', 64 * "0"


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def _part(target: Path) -> Iterator[Path]:
    """Make a file beside `target`, which is removed unless it takes its place."""
    descriptor, name = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name}.", suffix=".part"
    )
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
