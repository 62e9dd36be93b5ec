"""What texts refer to by its whole name is there."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.test_readme import GUIDES
from workbench.reproduction.systems import TITLES
from workbench.utils.files import ROOT

NAME = re.compile(r"`(workbench(?:\.\w+)+)[`(]")
PAGES = [
    *ROOT.glob("*.md"),
    *GUIDES,
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
    *sorted((ROOT / "workbench").rglob("*.py")),
    *sorted((ROOT / "scripts").glob("*.py")),
]
NAMED = sorted({(one, name) for one in PAGES for name in NAME.findall(one.read_text("utf-8"))})


def is_there(name: str) -> bool:
    """Whether it is a module, or what a module or one of its classes has."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        try:
            if find_spec(module) is None:
                continue
        except ModuleNotFoundError:  # within a module that is no package
            continue
        found: object = import_module(module)
        for part in parts[count:]:
            if not hasattr(found, part):
                return part in getattr(found, "__annotations__", ())
            found = getattr(found, part)
        return True
    return False


def test_examples_import_from_a_systems_public_face() -> None:
    within = re.compile(rf"from workbench\.(?:{'|'.join(TITLES)})\.\S+")
    for page in (ROOT / "README.md", *GUIDES):
        assert within.findall(page.read_text("utf-8")) == [], page


@pytest.mark.parametrize(
    ("page", "name"), NAMED, ids=[f"{page.relative_to(ROOT)}:{name}" for page, name in NAMED]
)
def test_names_are_there(page: Path, name: str) -> None:
    assert is_there(name), f"{page.relative_to(ROOT)} names {name}"


def test_a_name_that_is_gone_is_noticed() -> None:
    assert not is_there("workbench.edgegossip.paper.experiments.fig5")
    assert not is_there("workbench.utils.parallel.nothing")
