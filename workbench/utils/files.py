"""Files that are written whole or not at all, and the repository's root and data folders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import polars as pl


ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"

MOST_TEXT = 50_000_000
"""Characters of a user's file of text, unless another bound is given."""


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


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one step: readers see the old file or the new, never a part."""
    _replace(path, lambda temporary: temporary.write_bytes(data))


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path` in one step; see `write_bytes`."""
    write_bytes(path, text.encode())


def write_parquet(path: Path, frame: pl.DataFrame) -> None:
    """Write a polars frame as parquet to `path` in one step; see `write_bytes`."""
    _replace(path, frame.write_parquet)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    path = expanded(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(descriptor)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
