"""What rows rest on: the tables that are read, and versions of what computes."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

from workbench import systems
from workbench.store import code
from workbench.store.provenance import _read_by, inputs_of_rows
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
        ("testbeds/hiertrain.toml", "b = 2", True),
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
        "testbeds/hiertrain.toml": "b = 1",
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


def named_tables() -> dict[code.Definition, set[str]]:
    """Names of the testbeds and calibrations that each definition of the package loads."""
    found: dict[code.Definition, set[str]] = {}
    for module, path in code.modules().items():
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            names = {
                str(call.args[0].value)
                for call in ast.walk(statement)
                if isinstance(call, ast.Call)
                and ast.unparse(call.func).startswith("load_")
                and ast.unparse(call.func).endswith(("_testbed", "_calibration", "_constants"))
                and isinstance(call.args[0], ast.Constant)
            }
            for name in code._names(statement) or [code.STATEMENTS]:
                found.setdefault((module, name), set()).update(names)
    return found


@pytest.mark.parametrize("system", [*systems.SYSTEMS, *systems.ROOMS])
def test_every_table_that_a_recordings_code_names_counts(system: str) -> None:
    named, counted = named_tables(), {path.stem for path in _read_by(system, ROOT / "data")}
    functions = {figure.made_by for figure in systems.recordable(system).values()}
    reached = [code.used((one.__module__, one.__qualname__.partition(".")[0])) for one in functions]
    read = set().union(*(named.get(part, ()) for part in itertools.chain(*reached)))
    assert read <= counted
