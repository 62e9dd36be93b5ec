"""What the README and the guides tell their reader to type works, and prints what stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import Clone, Smoke, copy_repository
from workbench.clusters import load_cluster
from workbench.comparison import compare
from workbench.utils.files import ROOT

FENCED = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
DIRECTIVE = "{eval-rst}"
MOST_LINES = 120
"""Of the README: a screen or two, and no paragraph that a guide should hold."""


@dataclass(frozen=True)
class Page:
    """A page's fenced blocks in order, as language and text, and the prose around them."""

    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def blocks(self) -> list[tuple[str, str]]:
        found = ((match[1].strip(), match[2]) for match in FENCED.finditer(self.text))
        return [block for block in found if block[0] != DIRECTIVE]

    @property
    def prose(self) -> str:
        return FENCED.sub("", self.text)

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def lines(self) -> list[str]:
        """Return every command line of the shell blocks, and those within the text."""
        shell = "".join(text for language, text in self.blocks if language in ("sh", "bash"))
        whole = shell.replace("\\\n", " ").splitlines()
        typed = [line.strip() for line in whole if line.strip() and not line.startswith("#")]
        within = re.findall(r"`((?:workbench|make|python) [^`]+)`", self.prose)
        return [*typed, *(" ".join(line.split()) for line in within)]

    def examples(self) -> list[str]:
        return [text for language, text in self.blocks if language == "python"]

    def outputs(self) -> dict[int, str]:
        """Return what is said to be printed, by the place of the example before it."""
        said, place = {}, -1
        for language, text in self.blocks:
            place += language == "python"
            if language == "text":
                said[place] = text
        return said


README = Page(ROOT / "README.md")
GUIDES = sorted(
    path for path in (ROOT / "docs").rglob("*.md") if not {"generated", "_build"} & {*path.parts}
)
PAGES = [README, *map(Page, GUIDES)]
ELSEWHERE = [ROOT / "docs" / "three_machines.md"]  # a cluster is needed: tests/runtime has it
HERE = [page for page in PAGES if page.path not in ELSEWHERE]
LINES = list(dict.fromkeys(line for page in HERE for line in page.lines()))
COMMANDS = [line for line in LINES if line.startswith("workbench ")]
TARGETS = [line for line in LINES if line.startswith("make ")]
SCRIPTS = [line for line in LINES if line.startswith("python ")]
INSTALLING = [line for line in LINES if line.startswith("pip ")]
EXAMPLES = [(page.name, text) for page in HERE for text in page.examples()]
CLUSTERS = [text for page in HERE for language, text in page.blocks if language == "toml"]


@pytest.fixture(scope="module")
def clone(smoke: Smoke, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A copy with results that commands may change; of its notebooks, what the explorer needs."""
    copied = smoke.copy(tmp_path_factory.mktemp("readme") / "clone")
    for path in (copied.root / "notebooks").glob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        drawing = [cell for cell in code[2:] if "explore(" in "".join(cell["source"])]
        path.write_text(json.dumps({**notebook, "cells": [*code[:2], *drawing]}))
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
    said = (": step ", "made by no commit's code")  # the copy is no repository
    assert all(any(map(line.__contains__, said)) for line in done.stderr.splitlines()), done.stderr
    assert done.stdout.strip()
    return done.stdout


def test_the_readme_is_short() -> None:
    assert len(README.text.splitlines()) <= MOST_LINES


def test_nothing_goes_untested() -> None:
    for page in PAGES:
        fences = re.findall(r"^\s*(?:```|~~~)", page.text, re.MULTILINE)
        assert len(fences) == 2 * len(FENCED.findall(page.text)), page.name
        assert {language for language, _ in page.blocks} <= {
            "sh",
            "python",
            "toml",
            "text",
            "latex",
        }
        assert -1 not in page.outputs(), page.name
    assert set(LINES) == {*COMMANDS, *TARGETS, *SCRIPTS, *INSTALLING}
    assert COMMANDS
    assert {"make reproduce", "make test", "make lab", "make docs"} <= set(TARGETS)


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_runs_as_written(line: str, clone: Clone) -> None:
    printed = run(clone, "bash", "-euc", line)
    for path in re.findall(r"^\S+\.(?:svg|pdf|png)$", printed, re.MULTILINE):
        assert Path(path).stat().st_size > 1000
        assert Path(path).is_relative_to(clone.root)


@pytest.mark.parametrize("line", TARGETS)
def test_the_target_can_be_made(line: str, clone: Clone) -> None:
    # Made for real, `make test` would run this test, and `make lab` would not end.
    printed = run(clone, "bash", "-euc", line.replace("make ", "make --dry-run ", 1))
    assert ".venv/bin" in printed or ".uv/bin" in printed


@pytest.mark.parametrize("line", SCRIPTS)
def test_the_script_exists(line: str) -> None:
    name = line.removeprefix("python -m ").removeprefix("python ").split()[0]
    script = ROOT / (name if name.endswith(".py") else f"{name.replace('.', '/')}.py")
    compile(script.read_text(encoding="utf-8"), script, "exec")


@pytest.mark.parametrize("text", CLUSTERS)
def test_the_cluster_has_joules_and_prices(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    prices = compare("lenet5", load_cluster(path)).frame.filter(pl.col("reason").is_null())
    assert prices["price_per_1000_samples"].null_count() == 0
    assert prices["joules_per_1000_samples"].null_count() == 0


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the examples of each page print, run one after the other in names of the page's own."""
    fresh = copy_repository(tmp_path_factory.mktemp("examples") / "clone")
    code = "import json, sys\npages = {}\nfor page, text in json.loads(sys.argv[1]):\n"
    code += "    exec(text, pages.setdefault(page, {'__name__': '__main__'}))\n"
    code += "    print(end='\\0', flush=True)"
    texts = run(fresh, sys.executable, "-c", code, json.dumps(EXAMPLES)).split("\0")[:-1]
    found: dict[str, list[str]] = {}
    for (page, _), text in zip(EXAMPLES, texts, strict=True):
        found.setdefault(page, []).append(text)
    return found


def test_examples_print_what_stands_below_them(printed: dict[str, list[str]]) -> None:
    for page in HERE:
        for place, said in page.outputs().items():
            assert printed[page.name][place].rstrip() == said.rstrip(), page.name
        assert all(text.strip() for text in printed.get(page.name, ())), page.name


def test_the_example_of_planners_tells_them_apart(printed: dict[str, list[str]]) -> None:
    found = re.findall(
        r"^(\w+) +([\d.]+) ms$", printed["docs/how-to/own_model.md"][0], re.MULTILINE
    )
    times_ms = {name: float(text) for name, text in found}
    assert len(set(times_ms.values())) == len(times_ms) > 3
    assert min(times_ms, key=lambda name: times_ms[name]) == "dynacomm"


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", README.prose)
    assert links
    here = [link.partition("#")[0] for link in links if not re.match(r"https?://|#", link)]
    assert [link for link in here if not (ROOT / link).exists()] == []
