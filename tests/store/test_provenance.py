"""What rows rest on: the tables that are read, and versions of what computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.store.provenance import inputs_of_rows
from workbench.utils.files import ROOT


def rows() -> None:
    """What the inputs are asked of."""


@pytest.mark.parametrize(
    ("name", "content", "matters"),
    [
        ("calibration/hiertrain.toml", "a = 2", True),
        ("calibration/hiertrain.toml", "a = 1  # of the paper", False),
        ("calibration/hiertrain.toml", "a = 1\n[residuals.own]\nb = 2", False),
        ("calibration/dynacomm.toml", "a = 2", False),
        ("profiles/zoo.json", '{"lenet5":  [1]}', False),
        ("profiles/zoo.json", '{"lenet5": [2]}', True),
        ("profiles/zoo.json.key", "of other code", False),
        ("profiles/README.md", "other words", False),
        ("traces/mobile.csv", "0,2", True),
        ("claims.csv", "id\n", False),
    ],
)
def test_tables_are_what_is_read(name: str, content: str, matters: bool, tmp_path: Path) -> None:
    for table, text in {
        "calibration/hiertrain.toml": "a = 1",
        "profiles/zoo.json": '{"lenet5": [1]}',
    }.items():
        (tmp_path / "data" / table).parent.mkdir(parents=True)
        (tmp_path / "data" / table).write_text(text)

    def digest() -> str:
        return inputs_of_rows("hiertrain", rows, root=tmp_path, versions={})["data"]

    before = digest()
    (tmp_path / "data" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "data" / name).write_text(content)
    assert (digest() != before) is matters


@pytest.mark.parametrize(
    ("versions", "matters"),
    [
        ({"scikit-learn": "2"}, True),
        ({"simpy": "5"}, True),
        ({"altair": "7"}, False),
        ({"python": "3.11.9"}, False),
        ({"python": "3.12.1"}, True),
    ],
)
def test_versions_are_of_what_decides_rows(versions: dict[str, str], matters: bool) -> None:
    def digest(**other: str) -> str:
        found = {"python": "3.11.1", "scikit-learn": "1", "simpy": "4", "altair": "6"} | other
        return inputs_of_rows("hiertrain", rows, root=ROOT, versions=found)["versions"]

    assert (digest(**versions) != digest()) is matters
