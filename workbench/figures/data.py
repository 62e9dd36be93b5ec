"""Data of a chart that stands in files, read into its specification.

vl-convert draws empty axes where it cannot load data, and says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname, urlopen

from workbench.utils import files
from workbench.utils.checks import UserError

_TABLES: Final = ("csv", "tsv", "dsv")
_TREES: Final = ("json", "topojson")


def with_data(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Vega-Lite specification with the data of local files in it.

    Relative paths start at the current folder.

    Raises UserError: data is remote, cannot be read or is a name that the chart does not define; or
    all of it is empty.
    """
    contents = dict(spec.get("datasets") or {})
    sources = list[Mapping[str, Any]]()

    def read_in(node: Any) -> Any:
        if isinstance(node, list):
            return [read_in(child) for child in node]
        if not isinstance(node, Mapping):
            return node
        found = {
            key: value if key in ("datasets", "values") else read_in(value)
            for key, value in node.items()
        }
        if isinstance(data := found.get("data"), Mapping):
            found["data"] = data = _inline(data)
            sources.append(data)
            if "name" in data and not data.keys() <= {"name", "format"}:
                contents[data["name"]] = data.get("values", data)
        return found

    whole: dict[str, Any] = read_in(spec)
    for data in sources:
        if data.keys() <= {"name", "format"} and data.get("name") not in contents:
            raise UserError(
                f"the chart names its data {data.get('name')!r} and defines none of this name: "
                "give it a table"
            )
    rows = [contents.get(data.get("name"), data.get("values", data)) for data in sources]
    if rows and not any(map(_holds_rows, rows)):
        raise UserError("the chart's data has no rows: give it a table of at least one")
    return whole


def _inline(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a source of data with the values of its URL in place of the URL."""
    if (url := data.get("url")) is None:
        return data
    wanted = data.get("format") or {}
    suffix = PurePath(urlsplit(str(url)).path).suffix.removeprefix(".").lower()
    kind = wanted.get("type") or (suffix if suffix in (*_TABLES, *_TREES) else "json")
    text = _text(str(url))
    try:
        values = text if kind in _TABLES else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"the chart's data {url} is not JSON ({error}); give a table, or a file that ends in "
            f"{', '.join(f'.{kind}' for kind in (*_TABLES, *_TREES))}"
        ) from error
    kept = {key: value for key, value in data.items() if key != "url"}
    return {**kept, "values": values, "format": {**wanted, "type": kind}}


def _text(url: str) -> str:
    scheme = urlsplit(url).scheme
    if scheme == "data":
        try:
            with urlopen(url) as stream:
                return str(stream.read(), "utf-8")
        except ValueError as error:
            raise UserError(f"the chart's data {url[:60]} cannot be read: {error}") from None
    if scheme not in ("", "file"):
        raise UserError(
            f"the chart reads its data from {url}, and a figure needs no network: save it as a "
            "file and give its path, or read it into a table"
        )
    return files.read_text(url2pathname(urlsplit(url).path) if scheme else url)


def _holds_rows(values: Any) -> bool:
    return (
        len(list(filter(str.strip, values.splitlines()))) > 1
        if isinstance(values, str)
        else bool(values)
    )
