"""Code is what may decide a row: definitions that are reached by name, not whole modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.store.code import used

SOURCES = {
    "__init__": "import workbench.rules\n",
    "rules": "LIMIT = 1\nprint(LIMIT)\n",
    "one/paper": (
        "from workbench.training import Step, sgd as step\n"
        "from workbench import zoo\n"
        "from workbench.one import costs as c\n"
        "import altair as alt\n"
        "REPEATS = 3\n"
        "def rows(n):\n"
        "    from workbench.late import asked\n"
        "    return [step(one) for one in range(REPEATS)] + asked() + c.seconds.of(n)\n"
        "def chart(frame):\n"
        "    return alt.Chart(frame, other())\n"
        "def other():\n"
        "    return Step\n"
        "def models(name):\n"
        "    return zoo.load(name)\n"
    ),
    "one/__init__": "",
    "one/costs/__init__": "",
    "one/costs/seconds": (
        "def of(n):\n    return n * RATE\nRATE = 2\nUNUSED = 3\ndef not_used(): ...\n"
    ),
    "training/__init__": "from workbench.training.sgd import Step, sgd\n",
    "training/sgd": "def sgd(x):\n    return Step(x)\nclass Step:\n    size = 1\n",
    "late": "def asked():\n    return []\n",
    "zoo/__init__": (
        "import importlib\n"
        "def load(name):\n"
        '    return importlib.import_module(f"workbench.zoo.{name}")\n'
    ),
    "zoo/lenet": "def build(): ...\nLAYERS = []\nLAYERS.append(build)\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "workbench"
    for name, text in SOURCES.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(package: Path, name: str) -> set[str]:
    found = used(("workbench.one.paper", name), package)
    return {f"{module}:{one}".removeprefix("workbench.") for module, one in found}


def test_what_a_function_uses_is_reached_through_imports_of_all_kinds(package: Path) -> None:
    reached = {one for one in names(package, "rows") if not one.endswith("(statements)")}
    assert reached == {
        "one.paper:rows",
        "one.paper:REPEATS",
        "training.sgd:sgd",
        "training.sgd:Step",
        "late:asked",
        "one.costs.seconds:of",
        "one.costs.seconds:RATE",
    }


def test_what_a_module_does_when_it_is_imported_counts(package: Path) -> None:
    assert "zoo.lenet:(statements)" in names(package, "models")


def test_modules_that_are_loaded_by_a_name_made_up_count_as_a_whole(package: Path) -> None:
    assert {"zoo.lenet:build", "zoo.lenet:LAYERS"} <= names(package, "models")


@pytest.mark.parametrize(
    ("file", "old", "new", "matters"),
    [
        ("one/costs/seconds", "RATE = 2", "RATE = 5", True),
        ("training/sgd", "size = 1", "size = 2", True),
        ("one/paper", "alt.Chart(frame", "alt.Chart(None", False),
        ("one/costs/seconds", "def not_used(): ...", "def not_used(): return 1", False),
        ("late", "def asked():\n", 'def asked():\n    """Nothing."""  # at all\n', False),
        ("zoo/lenet", "def build(): ...", "def build(): return 1", False),
    ],
)
def test_a_change_matters_where_it_is_used(
    package: Path, file: str, old: str, new: str, matters: bool
) -> None:
    before = used(("workbench.one.paper", "rows"), package)
    path = package / f"{file}.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert (used(("workbench.one.paper", "rows"), package) != before) is matters


def test_what_does_not_exist_uses_nothing(package: Path) -> None:
    assert used(("workbench.gone", "rows"), package) == {}
