"""Finished points of sweeps, which are not computed again.

In memory, those that several figures share; in a folder, while a figure is recorded, all of them
and no others, so that a recording that was stopped can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from workbench.store.folder import sole_writer
from workbench.store.own_code import of_own_function
from workbench.utils import files
from workbench.utils.checks import UserError, is_number

Row = Mapping[str, Any]
Rows = Sequence[Row]
Measure = Callable[..., object]

_in_memory: dict[str, Rows] = {}


@dataclass(frozen=True)
class Recording:
    """Finished points in a folder, each in a file by its call and by what its rows rest on.

    Attributes
    ----------
    rests_on
        Groups of inputs of a function's rows, with their digests, as they are now.
    processes
        In how many the others are computed; None for one per core.
    again
        Compute those, too, that were finished before.
    failed
        Keep failed points, too, with their reason.
    check
        Called before a point is kept; raises an error if it cannot be.
    seconds
        That each point of this run took, whenever it was computed.
    """

    folder: Path
    rests_on: Callable[[Measure], Mapping[str, str]]
    processes: int | None = None
    again: bool = False
    failed: bool = True
    check: Callable[[], None] = lambda: None
    seconds: dict[str, float] = field(default_factory=dict)
    began_ns: int = field(default_factory=time.time_ns)
    _inputs: dict[Measure, Mapping[str, str]] = field(default_factory=dict)

    def inputs(self, measure: Measure) -> Mapping[str, str]:
        """Return what a function's rows rested on when it was first asked for."""
        if measure not in self._inputs:
            self._inputs[measure] = dict(self.rests_on(measure))
        return self._inputs[measure]

    def file(self, name: str, inputs: Mapping[str, str]) -> Path:
        """Return the file with the rows of a point."""
        return self.folder / _short(name) / f"{_short(json.dumps(inputs, sort_keys=True))}.json"

    def look_up(self, name: str, measure: Measure) -> Rows | None:
        """Return the rows of a finished point; None where there are none."""
        path = self.file(name, self.inputs(measure))
        kept = _read(path, name)
        if kept is None or (self.again and path.stat().st_mtime_ns < self.began_ns):
            return None
        self.seconds[name] = kept["seconds"]
        return cast(Rows, kept["rows"])

    def others(self, name: str, measure: Measure) -> set[str]:
        """Return the groups of inputs in which a point of this call rests on another version."""
        now, changed = self.inputs(measure), set[str]()
        for path in self.file(name, now).parent.glob("*.json"):
            kept = _read(path, name)
            if kept is not None and isinstance(before := kept.get("inputs"), dict):
                changed |= {group for group in now if before.get(group) != now[group]}
        return changed

    def keep(self, name: str, measure: Measure, rows: Rows, seconds: float) -> None:
        """Keep the rows of a finished point."""
        self.check()
        inputs = self.inputs(measure)
        point = {"of": name, "inputs": inputs, "seconds": seconds, "rows": list(map(dict, rows))}
        text = json.dumps(point, indent=1, default=_plain)
        sealed = f'{{"sha256": "{_sha256(text)}", "point":\n{text}}}\n'
        files.write_text(self.file(name, inputs), sealed)
        self.seconds[name] = seconds


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(under_way: Recording) -> Iterator[Recording]:
    """Keep finished points in a recording's folder, and compute none again that is there."""
    token = _recording.set(under_way)
    try:
        yield under_way
    finally:
        _recording.reset(token)


@contextmanager
def kept_in(
    folder: Path, measure: Measure, calls: Sequence[Mapping[str, Any]], processes: int | None
) -> Iterator[Recording]:
    """Keep finished points of a user's own sweep in a folder of theirs, but not failed ones.

    Raises UserError: another sweep writes there, or a point could not be found again by what the
    function and its arguments are.
    """
    if not isinstance(measure, FunctionType) or measure.__closure__:
        name = getattr(measure, "__qualname__", repr(measure))
        raise UserError(
            f"{name} cannot be told from others of its kind, so its points could not be kept; give "
            "a function that takes all that it needs as arguments, some of them by shared="
        )
    if (name := measure.__qualname__) == "<lambda>":
        raise UserError(f"{name}: a function whose points are kept needs a name; use def")
    if wrong := [at for call in calls for at in call.items() if not _is_plain(at[1])]:
        argument, value = wrong[0]
        raise UserError(
            f"{argument} is {value!r}: kept points are found by their arguments, so give numbers, "
            "texts, truth values, None or lists of these"
        )
    folder = folder.expanduser().resolve()
    inputs = of_own_function(measure)
    with (
        sole_writer(folder, (), instead=", or choose another folder"),
        recording(Recording(folder, lambda _: inputs, processes, failed=False)) as under_way,
    ):
        yield under_way


def current() -> Recording | None:
    """Return the current recording."""
    return _recording.get()


def key(measure: Measure, point: Mapping[str, Any]) -> str:
    """Name a function's call; the texts of its arguments have to be unique.

    What a function closes over would not be in its name: two figures would share rows.
    """
    if getattr(measure, "__closure__", None):
        raise AssertionError(f"{measure.__qualname__}: pass as arguments what it closes over")
    arguments = ", ".join(f"{name}={point[name]!r}" for name in sorted(point))
    return f"{measure.__module__}.{measure.__qualname__}({arguments})"


def look_up(measure: Measure, names: Sequence[str]) -> list[Rows | None]:
    """Return the rows of finished points, None where there are none; say if others are left out."""
    under_way = current()
    if under_way is None:
        return [_in_memory.get(name) for name in names]
    found = [under_way.look_up(name, measure) for name in names]
    changed = [
        groups
        for name, rows in zip(names, found, strict=True)
        if rows is None and (groups := under_way.others(name, measure))
    ]
    if changed:
        which = (
            "1 finished point is" if len(changed) == 1 else f"{len(changed)} finished points are"
        )
        what = ", ".join(sorted(set().union(*changed)))
        print(f"{which} of another version (changed: {what}) and not used", file=sys.stderr)
    return found


def keep(measure: Measure, name: str, rows: Rows, seconds: float) -> None:
    """Keep the rows of a finished point: for the current recording, else for this process."""
    under_way = current()
    if under_way is None:
        _in_memory[name] = rows
    else:
        under_way.keep(name, measure, rows, seconds)


def forget() -> None:
    """Forget what is in memory."""
    _in_memory.clear()


def _read(path: Path, name: str) -> dict[str, Any] | None:
    """Content of a point's file; None if it is none, or damaged, or another point's."""
    try:
        sealed = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    head, _, text = sealed.removesuffix("}\n").partition("\n")
    if head != f'{{"sha256": "{_sha256(text)}", "point":':
        return None
    kept: dict[str, Any] = json.loads(text)
    return kept if kept["of"] == name else None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _short(text: str) -> str:
    return _sha256(text)[:24]


def _is_plain(value: object) -> bool:
    """Whether its text says which value it is."""
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | str) or is_number(value)


def _plain(value: Any) -> Any:
    """A number or array of NumPy or PyTorch as plain numbers."""
    if not hasattr(value, "tolist"):
        raise UserError(
            f"a row holds {value!r}, which cannot be kept; give numbers, texts, truth values, "
            "None, or lists and dicts of these"
        )
    return value.tolist()
