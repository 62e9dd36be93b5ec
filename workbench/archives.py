"""Archives of what is computed once: each names the code that it was computed by."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from workbench import atomic
from workbench.errors import UserError

_COMPUTED_BY = "computed by"


def write(path: Path, print_of_code: str, members: Iterable[tuple[str, bytes]]) -> None:
    """Write an archive: the same bytes for the same members and the same code."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        file.writestr(zipfile.ZipInfo(_COMPUTED_BY), print_of_code)
        for name, content in members:
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    atomic.write_bytes(path, packed.getvalue())


def names(path: Path, print_of_code: str, script: str) -> frozenset[str]:
    """Names of what an archive holds; none if it is missing, or was computed by other code."""
    if not path.exists() or read(path, _COMPUTED_BY, script).decode() != print_of_code:
        return frozenset()
    return frozenset(_opened(path).namelist())


def read(path: Path, name: str, script: str) -> bytes:
    """Content of a member. Raises ValueError: the archive is damaged; `script` writes it anew."""
    try:
        return _opened(path).read(name)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UserError(f"{path} is damaged ({error}): run {script} to write it anew") from error


def _opened(path: Path) -> zipfile.ZipFile:
    about = path.stat()
    return _in_memory(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=4)
def _in_memory(path: Path, changed_ns: int, size: int) -> zipfile.ZipFile:
    """An archive as it was then: reading its list of members takes longer than reading one."""
    return zipfile.ZipFile(io.BytesIO(path.read_bytes()))
