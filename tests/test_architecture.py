"""The structure of the package: no import circles, the same rooms in every system."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

from workbench.utils.files import ROOT

PACKAGE = ROOT / "workbench"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
SYSTEMS = sorted(path.parent.name for path in PACKAGE.glob("*/paper"))
ROOMS = {"costs", "programs", "training", "explorer", "paper"}
REGISTRIES = {"algorithms": "ALGORITHMS", "planners": "PLANNERS"}
"""Where a system's algorithms are: in a folder, or in one file."""
MOST_ENTRIES = 9
ABOVE_SYSTEMS = re.compile(r"workbench\.(reproduction\.systems|comparison)\b")
"""They have systems by name, and side by side."""
FIRST, LAST = "testbed", "figures"
"""In a paper: what imports nothing of it, and what nothing of it imports."""
ASKED = {
    ".training": ("Setup", "train"),
    ".explorer": ("Setting",),
    ".paper.testbed": ("Constants", "paper_testbed"),
    ".paper.figures": ("FIGURES",),
}
"""What a system's modules are asked for by name."""


def texts(path: Path) -> Iterator[str]:
    """All strings of a file that are no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


@cache
def imports(path: Path) -> frozenset[str]:
    """Modules of the package that a file imports, for types or in functions, too."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {name if name in MODULES else node.module for name in whole}
    return frozenset(names & MODULES.keys())


def system_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in SYSTEMS else None


def rooms_of(system: str) -> set[str]:
    """Modules and packages of a system; a folder that is left of an earlier version is neither."""
    return {
        path.stem
        for path in (PACKAGE / system).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }


def test_systems_are_found() -> None:
    assert {"dynacomm", "hiertrain", "edgegossip", "dlion", "olpb"} <= set(SYSTEMS)


def test_no_import_circles() -> None:
    graph = {name: {one for one in imports(path) if one != name} for name, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_has_the_same_rooms(system: str) -> None:
    entries = rooms_of(system)
    assert entries >= ROOMS | {"__init__"}
    assert len(entries & REGISTRIES.keys()) == 1
    assert len(entries) <= MOST_ENTRIES


@pytest.mark.parametrize("system", SYSTEMS)
def test_only_the_explorer_reaches_into_the_paper(system: str) -> None:
    paper = f"workbench.{system}.paper"
    reaching = [
        name
        for name, path in MODULES.items()
        if not name.startswith((paper, f"workbench.{system}.explorer"))
        and any(one.startswith(paper) for one in imports(path))
    ]
    assert reaching == []


def test_systems_import_nothing_of_each_other_and_shared_rooms_nothing_of_systems() -> None:
    upwards = [
        (name, one)
        for name, path in MODULES.items()
        if name != "workbench" and not ABOVE_SYSTEMS.match(name)
        for one in imports(path)
        if system_of(one) not in (None, system_of(name))
    ]
    assert upwards == []


def test_profiles_import_nothing_of_memory() -> None:
    profiles = {name: path for name, path in MODULES.items() if "workbench.profiles" in name}
    assert not [name for name, path in profiles.items() if "workbench.memory" in str(imports(path))]


def test_shared_rooms_name_no_system() -> None:
    naming = [
        (name, text)
        for name, path in MODULES.items()
        if not (system_of(name) or name == "workbench.cli" or ABOVE_SYSTEMS.match(name))
        for text in texts(path)
        if any(system in text.lower() for system in SYSTEMS)
    ]
    assert naming == []


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_order_within_a_paper(system: str) -> None:
    paper = f"workbench.{system}.paper."

    def room(module: str) -> str:
        return module.removeprefix(paper).partition(".")[0]

    there = {name: path for name, path in MODULES.items() if name.startswith(paper)}
    wrong = [
        (name, one)
        for name, path in there.items()
        for one in imports(path)
        if one.startswith(paper)
        if one != name and (room(one) == LAST or room(name) == FIRST)
    ]
    assert wrong == []


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_has_the_names_that_the_contributing_guide_lists(system: str) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = rooms_of(system) & REGISTRIES.keys()
    registries = {f".{room}": (REGISTRIES[room],) for room in rooms}
    for module, names in {**registries, **ASKED}.items():
        there = import_module(f"workbench.{system}{module}")
        for name in names:
            assert hasattr(there, name)
            where = module.removeprefix(".").replace(".", "/") or "__init__"
            assert re.search(rf"`{where}\b.*`{name}[`(]", page)
