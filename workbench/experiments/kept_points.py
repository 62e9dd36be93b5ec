"""Finished points of a sweep, each in a file of its own, so that none is computed twice."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from workbench.utils import files
from workbench.utils.checks import UserError, is_number

Row = Mapping[str, Any]
Rows = Sequence[Row]
Measure = Callable[..., object]


class KeptPoints:
    """The finished points of one function in a folder, which other functions may share.

    A point is found by the function's name and source, and by its arguments. Of what the function
    calls nothing is known: after a change there, give another folder.

    Raises UserError: points of this function could not be found again.
    """

    def __init__(self, folder: Path, measure: Measure) -> None:
        self.folder = folder
        name = getattr(measure, "__qualname__", repr(measure))
        if not isinstance(measure, FunctionType) or measure.__closure__:
            raise UserError(
                f"{name} cannot be told from others of its kind, so its points could not be kept; "
                "give a function that takes all that it needs as arguments, some of them by shared="
            )
        if name == "<lambda>":
            raise UserError(f"{name}: a function whose points are kept needs a name; use def")
        try:
            source = inspect.getsource(measure)
        except (OSError, TypeError):
            raise UserError(
                f"the source of {name} cannot be read, so its points could not be kept; define it "
                "in a notebook's cell or a file"
            ) from None
        self._measure, self._source = measure, _sha256(source)

    def load(self, call: Mapping[str, Any]) -> Rows | None:
        """Return the rows of a finished point; None where there are none, or damaged ones."""
        name = self._name(call)
        try:
            sealed = self._file(name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None
        head, _, text = sealed.removesuffix("}\n").partition("\n")
        if head != _head(text):
            return None
        point = json.loads(text)
        return cast(Rows, point["rows"]) if point["of"] == name else None

    def save(self, call: Mapping[str, Any], rows: Rows) -> None:
        """Keep the rows of a finished point."""
        name = self._name(call)
        text = json.dumps({"of": name, "rows": list(map(dict, rows))}, indent=1, default=_plain)
        files.write_text(self._file(name), f"{_head(text)}\n{text}}}\n")

    def _name(self, call: Mapping[str, Any]) -> str:
        if wrong := [item for item in call.items() if not _is_told_by_its_text(item[1])]:
            argument, value = wrong[0]
            raise UserError(
                f"{argument} is {value!r}: kept points are found by their arguments, so give "
                "numbers, texts, truth values, None, or lists or dataclasses of these"
            )
        return f"{call_name(self._measure, call)} of source {self._source}"

    def _file(self, name: str) -> Path:
        return self.folder / f"{_sha256(name)[:24]}.json"


def call_name(measure: Measure, call: Mapping[str, Any]) -> str:
    """Name a function's call by the texts of its arguments."""
    arguments = ", ".join(f"{name}={call[name]!r}" for name in sorted(call))
    return f"{measure.__module__}.{measure.__qualname__}({arguments})"


def _head(text: str) -> str:
    return f'{{"sha256": "{_sha256(text)}", "point":'


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_told_by_its_text(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_told_by_its_text, value))
    if isinstance(value, Mapping):
        return all(map(_is_told_by_its_text, (*value.keys(), *value.values())))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return all(
            _is_told_by_its_text(getattr(value, field.name)) for field in dataclasses.fields(value)
        )
    return value is None or isinstance(value, bool | str | range) or is_number(value)


def _plain(value: Any) -> Any:
    """A number or array of NumPy or PyTorch as plain numbers."""
    if not hasattr(value, "tolist"):
        raise UserError(
            f"a row holds {value!r}, which cannot be kept; give numbers, texts, truth values, "
            "None, or lists and dicts of these"
        )
    return value.tolist()
