"""The code that an experiment's rows may rest on."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import workbench

PACKAGE = Path(workbench.__file__).parent

SHOWS = ("claims", "cli", "figures", "reproduce", "results", "systems", "widgets")
"""Rooms that show and judge what there is."""
SHOWS_A_SYSTEM = ("explorer", "answers", "charts")
KEEPS = ("experiments/record", "experiments/recorded")


def code(leave_out: Collection[str] = (), package: Path = PACKAGE) -> dict[str, str]:
    """Return the SHA-256 of each module that may decide a row, by its path.

    Comments, docstrings and layout do not count, nor do modules that only show rows. `leave_out`
    names packages of other systems.
    """
    shows = {*SHOWS, *leave_out}
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = "/".join(parts)
        if parts[0] not in shows and parts[-1] not in SHOWS_A_SYSTEM and name not in KEEPS:
            found[name] = _digest(path, path.stat().st_mtime_ns)
    return found


@lru_cache(maxsize=1024)
def _digest(path: Path, changed_ns: int) -> str:
    del changed_ns  # a file that is written anew is read anew
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_text(one)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
