"""Finished points of a sweep, by function and arguments, so that none is computed twice.

A point's name holds the function's name and source, as it stands in its file, and its arguments
with their defaults. What the function calls is not in it: after a change there, take another
folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from workbench.reproduction.manifest import sealed, unsealed
from workbench.utils import files
from workbench.utils.checks import UserError, is_number

Row = Mapping[str, Any]
Rows = Sequence[Row]
Call = Mapping[str, Any]


class PointFolder:
    """Rows of finished points by name, each in a file of its own.

    Several functions may share a folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str) -> Rows | None:
        """Return the rows of a finished point; None if the file is missing or damaged."""
        try:
            point = unsealed(self._file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return cast(Rows, point["rows"]) if point.get("of") == name else None

    def __setitem__(self, name: str, rows: Rows) -> None:
        content = {"of": name, "rows": [dict(row) for row in rows]}
        files.write_text(self._file(name), sealed(content, default=_plain))

    def _file(self, name: str) -> Path:
        return self.folder / f"{_sha256(name)[:24]}.json"


def point_names(function: Callable[..., object], calls: Sequence[Call]) -> list[str]:
    """Name the calls of a function; the same call has the same name in every process."""
    source, defaults = _sha256(_source(function) or ""), _defaults(function)
    wholes = ({**defaults, **call} for call in calls)
    arguments = (", ".join(f"{key}={call[key]!r}" for key in sorted(call)) for call in wholes)
    name = f"{function.__module__}.{function.__qualname__}"
    return [f"{name}({text}) of source {source}" for text in arguments]


def check_nameable(function: Callable[..., object], calls: Sequence[Call]) -> None:
    """Refuse functions and arguments whose names would not tell them from others."""
    name = getattr(function, "__qualname__", repr(function))
    is_plain = isinstance(function, FunctionType) and not function.__closure__
    if not is_plain or name == "<lambda>" or _source(function) is None:
        raise UserError(
            f"{name} cannot be told from others of its kind, so its points could not be kept; "
            "give a function of a file or a notebook's cell, made by def, that takes all that it "
            "needs as arguments, some of them by shared="
        )
    for argument, value in (
        item for call in (_defaults(function), *calls) for item in call.items()
    ):
        if not _has_whole_repr(value):
            raise UserError(
                f"{argument} is {value!r}: kept points are found by their arguments, so give "
                "numbers, texts, truth values, None, or lists or dataclasses of these"
            )


def _source(function: Callable[..., object]) -> str | None:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return None


def _defaults(function: Callable[..., object]) -> dict[str, Any]:
    """Return the defaults of a function's arguments, without `steps`, which shows progress."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function of C's
        return {}
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not parameter.empty and parameter.name != "steps"
    }


def _has_whole_repr(value: object) -> bool:
    """Whether `repr` tells a value from every other; it shortens arrays and numbers objects."""
    if isinstance(value, Mapping):
        return all(map(_has_whole_repr, (*value.keys(), *value.values())))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return all(_has_whole_repr(getattr(value, part.name)) for part in dataclasses.fields(value))
    if isinstance(value, tuple | list):
        return all(map(_has_whole_repr, value))
    return value is None or isinstance(value, bool | str | range) or is_number(value)


def _plain(value: Any) -> Any:
    """A number or array of NumPy or PyTorch as plain numbers."""
    if not hasattr(value, "tolist"):
        raise UserError(
            f"a row holds {value!r}, which cannot be kept; give numbers, texts, truth values, "
            "None, or lists and dicts of these"
        )
    return value.tolist()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()
