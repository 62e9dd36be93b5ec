"""What a paper states of its testbed stands in one place, and is used."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from workbench.clusters import load_constants
from workbench.reproduction.systems import TITLES
from workbench.utils.checks import UnknownNameError
from workbench.utils.files import DATA, ROOT

TESTBEDS = sorted((DATA / "testbeds").glob("*.toml"))


def unused(table: Mapping[str, Any], text: str, path: str = "") -> Iterator[str]:
    """Keys that no code names; a table may be read by its name, all of it, instead."""
    named = [name for name in table if f'"{name}"' in text]
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from unused(value, text, f"{path}{name}.")
        elif name not in named and (named or f'"{path.split(".")[-2]}"' not in text):
            yield f"{path}{name}"


@pytest.mark.parametrize("path", TESTBEDS, ids=lambda path: path.stem)
def test_every_fact_is_used(path: Path) -> None:
    facts = tomllib.loads(path.read_text(encoding="utf-8"))
    del facts["source"]
    folders = (ROOT / "workbench" / path.stem, ROOT / "tests" / path.stem)
    files = (file for folder in folders for file in folder.rglob("*.py"))
    assert list(unused(facts, "\n".join(file.read_text(encoding="utf-8") for file in files))) == []


@pytest.mark.parametrize("system", TITLES)
def test_unknown_explanation_is_refused(system: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown explanation 'silent'"):
        load_constants(system, "silent")
