"""Finished points of sweeps, which are not computed again.

In memory, those that several figures share; in a folder, while results are recorded, all of them
and no others, so that a recording that was stopped can be resumed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from workbench import atomic

Row = Mapping[str, Any]
Rows = Sequence[Row]

_in_memory: dict[str, Rows] = {}


@dataclass(frozen=True)
class Recording:
    """Finished points in a folder.

    Attributes
    ----------
    processes
        In how many the others are computed; None for one per core.
    check
        Called before a point is kept; raises an error if it cannot be.
    seconds
        That each point of this run took, whenever it was computed.
    """

    folder: Path
    processes: int | None
    check: Callable[[], None]
    seconds: dict[str, float] = field(default_factory=dict)

    def file(self, key: str) -> Path:
        """Return the file with the rows of a point."""
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(
    folder: Path, processes: int | None = None, check: Callable[[], None] = lambda: None
) -> Iterator[Recording]:
    """Keep finished points in a folder, and compute none again that is there.

    The folder is for one state of code and data: rows are found by function and arguments alone.
    """
    under_way = Recording(folder, processes, check)
    token = _recording.set(under_way)
    try:
        yield under_way
    finally:
        _recording.reset(token)


def current() -> Recording | None:
    """Return the current recording."""
    return _recording.get()


def key(measure: Callable[..., object], point: Mapping[str, Any]) -> str:
    """Name a function's call; the texts of its arguments have to be unique.

    What a function closes over would not be in its name: two figures would share rows.
    """
    if getattr(measure, "__closure__", None):
        raise AssertionError(f"{measure.__qualname__}: pass as arguments what it closes over")
    arguments = ", ".join(f"{name}={point[name]!r}" for name in sorted(point))
    return f"{measure.__module__}.{measure.__qualname__}({arguments})"


def look_up(name: str) -> Rows | None:
    """Return the rows of a finished point; None where there are none."""
    under_way = current()
    if under_way is None:
        return _in_memory.get(name)
    try:
        kept = json.loads(under_way.file(name).read_text(encoding="utf-8"))
        of, seconds, rows = kept["of"], kept["seconds"], kept["rows"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if of != name or not isinstance(rows, list):
        return None
    under_way.seconds[name] = seconds
    return cast(Rows, rows)


def keep(name: str, rows: Rows, seconds: float) -> None:
    """Keep the rows of a finished point: for the current recording, else for this process."""
    under_way = current()
    if under_way is not None:
        under_way.check()
        point = {"of": name, "seconds": seconds, "rows": list(map(dict, rows))}
        text = json.dumps(point, indent=1, default=_plain)
        atomic.write_text(under_way.file(name), text + "\n")
        under_way.seconds[name] = seconds
    else:
        _in_memory[name] = rows


def forget() -> None:
    """Forget what is in memory."""
    _in_memory.clear()


def _plain(number: Any) -> Any:
    return number.item()
