"""Data of a chart that stands in files, read into its specification.

vl-convert draws empty axes where it cannot load data, and says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from workbench.utils import files
from workbench.utils.checks import UserError

_TABLES: Final = ("csv", "tsv", "dsv")  # formats of text; others are JSON


def with_data(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Vega-Lite specification with the data of local files in it.

    Relative paths start at the current folder.

    Raises UserError: data is remote or cannot be read; or all of it is empty.
    """
    sources = list[Mapping[str, Any]]()

    def read_in(node: Any) -> Any:
        if isinstance(node, list):
            return [read_in(child) for child in node]
        if not isinstance(node, Mapping):
            return node
        node = {
            key: value if key in ("datasets", "values") else read_in(value)
            for key, value in node.items()
        }
        if isinstance(node.get("data"), Mapping):
            node["data"] = _inline(node["data"])
            sources.append(node["data"])
        return node

    whole: dict[str, Any] = read_in(spec)
    datasets = dict(spec.get("datasets") or {})
    datasets |= {data["name"]: data["values"] for data in sources if {"name", "values"} <= {*data}}
    tables = list[Any]()
    for data in sources:
        is_name = data.keys() <= {"name", "format"}
        tables.append(datasets.get(data["name"]) if is_name else data.get("values", data))
    if tables and not any(map(_has_rows, tables)):
        raise UserError("the chart's data has no rows: give it a table of at least one")
    return whole


def _inline(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a source of data with the contents of its file in place of its URL."""
    if "url" not in data:
        return data
    url = urlsplit(str(data["url"]))
    if url.scheme not in ("", "file"):
        raise UserError(
            f"the chart reads its data from {data['url']}, and a figure needs no network: save it "
            "as a file and give its path, or read it into a table"
        )
    text = files.read_text(url2pathname(url.path) if url.scheme else data["url"])
    suffix = PurePath(url.path).suffix.removeprefix(".").lower()
    format = {"type": suffix if suffix in _TABLES else "json", **data.get("format", {})}
    try:
        values = text if format["type"] in _TABLES else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"the chart's data {data['url']} is not JSON ({error}); give a table, or a file that "
            "ends in .csv, .tsv or .json"
        ) from error
    others = {key: value for key, value in data.items() if key != "url"}
    return {**others, "values": values, "format": format}


def _has_rows(values: Any) -> bool:
    if isinstance(values, str):  # of a table with a heading
        return len([line for line in values.splitlines() if line.strip()]) > 1
    return bool(values)
