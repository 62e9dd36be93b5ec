"""Fingerprints of code: what is stored names the code that it was computed by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def fingerprint(package: Path, patterns: Iterable[str]) -> str:
    """SHA-256 of the names and contents of all files in `package` that match a pattern."""
    digest = hashlib.sha256()
    for path in (path for pattern in patterns for path in sorted(package.glob(pattern))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
