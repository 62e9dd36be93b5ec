"""The commands that ARTIFACT.md gives are ones that the package takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from typer.main import get_command

from workbench.cli import app
from workbench.reproduction import recordings
from workbench.reproduction.notebook_files import find, notebooks_folder
from workbench.reproduction.record import check_arguments
from workbench.reproduction.results import system_of
from workbench.reproduction.scorecard.one_claim import claims_named
from workbench.reproduction.systems import TITLES
from workbench.utils.files import ROOT

PAGE = (ROOT / "ARTIFACT.md").read_text("utf-8")
ROW = re.compile(r"^\| (.+) \| `workbench (.+)` \| (?:[\d.]+|hours) \|$", re.MULTILINE)
TYPED = re.compile(r"^\.venv/bin/workbench (.+)$", re.MULTILINE)


def options_of(line: str) -> dict[str, Any]:
    """Parse a command line; an unknown command or option is an error."""
    group: Any = get_command(app)
    command, *arguments = shlex.split(line)
    return dict(group.commands[command].make_context(command, arguments).params)


def test_commands_of_the_table_exist_and_make_every_recording() -> None:
    notebooks, made = list[Path](), set[tuple[str, str]]()
    for figure, line in ROW.findall(PAGE):
        options = options_of(line)
        if line.startswith("reproduce"):
            notebooks += [one.path for one in find(notebooks_folder(None), options["names"])]
            continue
        system, name = options["system"], options["experiment"]
        parameters = dict(text.split("=") for text in options["parameter"] or ())
        check_arguments(system, [name], options["scale"], options["seeds"], parameters)
        assert figure == f"{system} {name}"
        made.add((system, name))
    assert made == {(path.parent.name, path.name) for path in recordings.FOLDER.glob("*/*")}
    assert [system_of(path.stem) for path in notebooks] == list(TITLES)


def test_commands_to_try_first_exist() -> None:
    claims = [options_of(line).get("claim") for line in TYPED.findall(PAGE)]
    assert [claims_named(claim) for claim in claims if claim] != []
