"""What is computed once and committed: a file, and beside it the key of what made it.

The key of ``zoo.json`` is ``zoo.json.key``: the SHA-256 of its bytes and of the code that made
them, by the definitions that it reaches (`workbench.store.code`), so that an edited
docstring requires no new computation. The key also has the SHA-256 of the sources of these
definitions: while they are the same, nothing is parsed, which would take a tenth of a second.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from workbench.store import code
from workbench.store.code import PACKAGE, Definition
from workbench.utils import files
from workbench.utils.checks import UserError


@dataclass(frozen=True)
class Kept:
    """A file that a script computes.

    Attributes
    ----------
    made_by
        The function whose result it is. The result also depends on PyTorch, whose version
        pyproject.toml fixes.
    script
        What to run to write it again.
    """

    path: Path
    made_by: Definition
    script: str
    package: Path = PACKAGE

    @property
    def key(self) -> Path:
        """The file with the key, beside that with the content."""
        return self.path.with_name(f"{self.path.name}.key")

    def keep(self, content: bytes) -> None:
        """Write the file whole, and then its key, without which it is not used."""
        used = code.used(self.made_by, self.package)
        assert self.made_by in used, f"{'.'.join(self.made_by)} is not defined"
        modules = sorted({module for module, _ in used})
        key = {
            "made by": ".".join(self.made_by),
            "content": hashlib.sha256(content).hexdigest(),
            "code": code.digest(used),
            "sources": self._sources(modules),
            "modules": modules,
        }
        files.write_bytes(self.path, content)
        files.write_text(self.key, json.dumps(key, indent=1) + "\n")
        _content.cache_clear()
        _archive.cache_clear()

    def content(self) -> bytes | None:
        """Return the file's bytes; None if there are none, or other code made them.

        Raises ValueError: the file is damaged.
        """
        return _content(self)

    def member(self, name: str) -> bytes | None:
        """As `content`, of a member of an archive."""
        archive = _archive(self)
        if archive is None or name not in archive.NameToInfo:
            return None
        return archive.read(name)

    def _is_by(self, key: Mapping[str, Any]) -> bool:
        """Whether a key is that of the present code."""
        if self._sources(key["modules"]) == key["sources"]:
            return True
        return code.digest(code.used(self.made_by, self.package)) == str(key["code"])

    def _sources(self, modules: Iterable[str]) -> str:
        """SHA-256 of the modules' names and sources; a missing module counts as empty."""
        digest = hashlib.sha256()
        for module in modules:
            path = self.package.parent.joinpath(*module.split("."))
            source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            text = source.read_bytes() if source.exists() else b""
            digest.update(module.encode() + b"\0" + hashlib.sha256(text).digest())
        return digest.hexdigest()


def packed(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Pack an archive: the same bytes for the same members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compresslevel=9) as file:
        for name, member in members:
            file.writestr(zipfile.ZipInfo(name), member, zipfile.ZIP_DEFLATED)
    return content.getvalue()


@cache
def _content(kept: Kept) -> bytes | None:
    try:
        text, content = kept.key.read_bytes(), kept.path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        key = json.loads(text)
        if not kept._is_by(key):
            return None
        is_whole = key["content"] == hashlib.sha256(content).hexdigest()
    except (ValueError, KeyError):
        is_whole = False
    if not is_whole:
        raise UserError(f"{kept.path} is damaged: run {kept.script} to write it again")
    return content


@cache
def _archive(kept: Kept) -> zipfile.ZipFile | None:
    content = kept.content()
    return None if content is None else zipfile.ZipFile(io.BytesIO(content))
