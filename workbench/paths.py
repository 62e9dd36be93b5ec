"""Where the repository keeps what is not code."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"


def expanded(path: str | os.PathLike[str]) -> Path:
    """Put the home folder in the place of ``~``; refuse that of a user who is not there."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(f"{path}: there is no home folder of that user") from None
