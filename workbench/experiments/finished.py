"""Finished points of sweeps, which are not computed again.

In memory, those that several figures share; in a folder, while results are recorded, all of them,
so that a recording that was stopped can be resumed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench import atomic

Row = Mapping[str, Any]
Rows = Sequence[Row]

_in_memory: dict[str, Rows] = {}


@dataclass(frozen=True)
class Recording:
    """Folder of finished points, and in how many processes the others are computed."""

    folder: Path
    processes: int | None

    def file(self, key: str) -> Path:
        """Return the file with the rows of a point."""
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(folder: Path, processes: int | None = None) -> Iterator[None]:
    """Keep finished points in a folder, and compute none again that is there.

    The folder is for one state of code and data: rows are found by function and arguments alone.
    Sweeps run in `processes`, whatever they ask for; None for one per core.
    """
    token = _recording.set(Recording(folder, processes))
    try:
        yield
    finally:
        _recording.reset(token)


def current() -> Recording | None:
    """Return the current recording."""
    return _recording.get()


def key(measure: Callable[..., object], point: Mapping[str, Any]) -> str:
    """Name a function's call; the texts of its arguments have to be unique."""
    arguments = ", ".join(f"{name}={point[name]!r}" for name in sorted(point))
    return f"{measure.__module__}.{measure.__qualname__}({arguments})"


def look_up(name: str) -> Rows | None:
    """Return the rows of a finished point; None where there are none."""
    if name in _in_memory:
        return _in_memory[name]
    under_way = current()
    if under_way is None:
        return None
    try:
        kept = json.loads(under_way.file(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    rows: Rows = kept["rows"]
    return rows


def keep(name: str, rows: Rows, *, in_memory: bool) -> None:
    """Keep the rows of a finished point: for this process, and for the current recording."""
    if in_memory:
        _in_memory[name] = rows
    under_way = current()
    if under_way is not None:
        text = json.dumps({"of": name, "rows": list(map(dict, rows))}, indent=1, default=_plain)
        atomic.write_text(under_way.file(name), text + "\n")


def forget() -> None:
    """Forget what is in memory."""
    _in_memory.clear()


def _plain(number: Any) -> Any:
    return number.item()
