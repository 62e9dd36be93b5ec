"""The papers' testbeds: what the papers state, and the constants fitted to what they leave open.

``data/testbeds/SYSTEM.toml`` has the stated facts; ``data/calibration/SYSTEM.toml`` has constants
for each explanation that was weighed, the claims they were fitted on, and how far off they are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench.utils import files
from workbench.utils.checks import check_name, choose


def load_testbed(name: str, folder: Path = files.DATA / "testbeds") -> dict[str, Any]:
    """Read ``data/testbeds/NAME.toml``: facts of a paper's set-up, each with its source."""
    check_name("testbed", name, sorted(path.stem for path in folder.glob("*.toml")))
    return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))


def load_calibration(system: str) -> dict[str, Any]:
    """Read ``data/calibration/SYSTEM.toml``; empty if nothing was calibrated."""
    path = _calibration_file(system)
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def load_constants(system: str, explanation: str) -> dict[str, Any]:
    """Read the constants that were fitted for an explanation of what the paper leaves open."""
    constants: dict[str, dict[str, Any]] = load_calibration(system).get("constants", {})
    return choose("explanation", explanation, constants)


def calibration_toml(
    system: str,
    about: str,
    *,
    explanation: str,
    method: str,
    fitted_on: Iterable[str],
    tables: Mapping[str, Mapping[str, object]],
    module: str = "",
) -> str:
    """Return the text of a system's calibration, the same for the same values.

    `about` is a comment, `fitted_on` has ids of claims, `module` is what fits them. Numbers are
    given as text where their digits count. A ``#`` in a name of a table or value begins a comment:
    ``"residuals  # percentage points"``.
    """
    lines = [
        *(f"# {line}" for line in about.splitlines()),
        f"# `python -m {module or f'workbench.{system}.paper.calibration'}` fits them again.",
        "",
        f'explanation = "{explanation}"  # the one in use',
        f'method = "{method}"',
        "",
        "fitted_on = [",
        *(f'  "{claim}",' for claim in fitted_on),
        "]",
    ]
    for heading, values in tables.items():
        name, mark, comment = heading.partition("  # ")
        lines += ["", f"[{name}]{mark}{comment}"]
        for key, value in values.items():
            bare, mark, comment = key.partition("  # ")
            lines.append(f"{_key(bare)} = {value}{mark}{comment}")
    return "\n".join([*lines, ""])


def write_calibration(system: str, text: str) -> Path:
    """Write a system's calibration, whole or not at all."""
    tomllib.loads(text)
    path = _calibration_file(system)
    files.write_text(path, text)
    return path


def _calibration_file(system: str) -> Path:
    return files.DATA / "calibration" / f"{system}.toml"


def _key(name: str) -> str:
    return f'"{name}"' if "." in name else name
