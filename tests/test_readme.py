"""What the README tells its reader to type works, as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import Clone, Smoke, copy_repository
from workbench.clusters import load_cluster
from workbench.comparison import compare
from workbench.utils.files import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
BLOCKS = [(match[1].strip(), match[2]) for match in FENCED.finditer(TEXT)]
PROSE = FENCED.sub("", TEXT)


def lines() -> list[str]:
    """Return every command line of the shell blocks, and those within the text."""
    shell = "".join(text for language, text in BLOCKS if language in ("sh", "bash"))
    whole = shell.replace("\\\n", " ").splitlines()
    found = [line.strip() for line in whole if line.strip() and not line.startswith("#")]
    return list(dict.fromkeys([*found, *re.findall(r"`((?:workbench|make|python) [^`]+)`", PROSE)]))


COMMANDS = [line for line in lines() if line.startswith("workbench ")]
TARGETS = [line for line in lines() if line.startswith("make ")]
SCRIPTS = [line for line in lines() if line.startswith("python ")]
EXAMPLES = [text for language, text in BLOCKS if language == "python"]
CLUSTERS = [text for language, text in BLOCKS if language == "toml"]


@pytest.fixture(scope="module")
def clone(smoke: Smoke, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A copy with results that the commands may change; its notebooks end with the explorer."""
    copied = smoke.copy(tmp_path_factory.mktemp("readme") / "clone")
    for path in (copied.root / "notebooks").glob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = ["".join(cell["source"]) for cell in notebook["cells"]]
        end = next((at for at, cell in enumerate(cells) if "explore(" in cell), len(cells)) + 1
        path.write_text(json.dumps({**notebook, "cells": notebook["cells"][:end]}))
    return copied


def run(clone: Clone, *command: str | Path) -> str:
    """Run a command as a user would, in the copy; return what it prints."""
    done = subprocess.run(
        command,
        cwd=clone.root,
        env=clone.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    assert done.stdout.strip()
    return done.stdout


def test_nothing_in_it_goes_untested() -> None:
    fences = re.findall(r"^\s*(?:```|~~~)", TEXT, re.MULTILINE)
    assert len(fences) == 2 * len(BLOCKS)
    assert {language for language, _ in BLOCKS} <= {"sh", "bash", "python", "toml"}
    assert set(lines()) == {*COMMANDS, *TARGETS, *SCRIPTS}
    assert COMMANDS
    assert EXAMPLES
    assert {"make reproduce", "make test", "make lab"} <= set(TARGETS)


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_runs_as_written(line: str, clone: Clone) -> None:
    printed = run(clone, "bash", "-euc", line)
    for path in re.findall(r"^\S+\.(?:svg|pdf|png)$", printed, re.MULTILINE):
        assert Path(path).stat().st_size > 1000
        assert Path(path).is_relative_to(clone.root)


@pytest.mark.parametrize("line", TARGETS)
def test_the_target_can_be_made(line: str, clone: Clone) -> None:
    # Made for real, `make test` would run this test, and `make lab` would not end.
    assert ".venv/bin" in run(clone, "bash", "-euc", line.replace("make ", "make --dry-run ", 1))


@pytest.mark.parametrize("line", SCRIPTS)
def test_the_script_exists(line: str) -> None:
    name = line.removeprefix("python -m ").removeprefix("python ").split()[0]
    script = ROOT / (name if name.endswith(".py") else f"{name.replace('.', '/')}.py")
    compile(script.read_text(encoding="utf-8"), script, "exec")


@pytest.mark.parametrize("text", CLUSTERS)
def test_the_cluster_has_joules_and_prices(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    prices = compare("lenet5", load_cluster(path)).filter(pl.col("reason").is_null())
    assert prices["price_per_1000_samples"].null_count() == 0
    assert prices["joules_per_1000_samples"].null_count() == 0


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each example prints, in names of its own, in a clone without results."""
    fresh = copy_repository(tmp_path_factory.mktemp("examples") / "clone")
    code = "import sys\nfor text in sys.argv[1:]:\n    exec(text, {'__name__': '__main__'})\n"
    code += "    print(end='\\0', flush=True)"
    return run(fresh, sys.executable, "-c", code, *EXAMPLES).split("\0")[:-1]


def test_examples_run_each_by_itself(printed: list[str]) -> None:
    assert len(printed) == len(EXAMPLES)
    assert all(text.strip() for text in printed)


def test_the_example_of_planners_tells_them_apart(printed: list[str]) -> None:
    (at,) = (
        at for at, one in enumerate(EXAMPLES) if "PLANNERS.items()" in one and "dynacomm" in one
    )
    found = re.findall(r"^(\w+) +([\d.]+) ms$", printed[at], re.MULTILINE)
    times_ms = {name: float(text) for name, text in found}
    assert len(set(times_ms.values())) == len(times_ms) > 3
    assert min(times_ms, key=lambda name: times_ms[name]) == "dynacomm"
    assert all(f"{round(one):,}" in PROSE for one in times_ms.values())


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", PROSE)
    assert links
    here = [link.partition("#")[0] for link in links if not re.match(r"https?://|#", link)]
    assert [link for link in here if not (ROOT / link).exists()] == []
