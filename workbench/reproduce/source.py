"""The modules of the package, what they import, and the code that rows may rest on."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import workbench

PACKAGE = Path(workbench.__file__).parent

SHOWS = ("claims", "cli", "figures", "reproduce", "results", "systems", "widgets")
"""Rooms that show and judge what there is."""
SHOWS_A_SYSTEM = ("explorer", "answers", "charts")


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the files of a package's modules by their dotted names."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: Container[str]) -> Iterator[str]:
    """Yield those of `known` modules that a file imports, for types or in functions, too."""
    for name in _read(path).imported:
        module = name if name in known else name.rpartition(".")[0]
        if module in known:
            yield module


def code(start: str, package: Path = PACKAGE) -> dict[str, str]:
    """Return the SHA-256 of each module that may decide the rows of a module's experiments.

    It is what the module imports, and what that imports; but modules that only show rows. Comments,
    docstrings and layout do not count.
    """
    known = modules(package)
    found, left = dict[str, str](), [package.name, start]
    while left:
        name = left.pop()
        if name in known and name not in found and not _shows(name):
            file = _read(known[name])
            found[name] = file.digest
            left += imports(known[name], known)
            left += [one for one in known if one.startswith(file.loaded_late)]
    return dict(sorted(found.items()))


def _shows(module: str) -> bool:
    _, *rooms = module.split(".")
    return bool(rooms) and (rooms[0] in SHOWS or rooms[-1] in SHOWS_A_SYSTEM)


class _File(NamedTuple):
    """A module's digest, dotted names that it imports, and what those begin with that it forms."""

    digest: str
    imported: tuple[str, ...]
    loaded_late: tuple[str, ...]


def _read(path: Path) -> _File:
    return _parsed(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _parsed(path: Path, changed_ns: int) -> _File:
    del changed_ns  # a file that is written anew is read anew
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    imported, late = tuple(_imported(nodes)), tuple(_loaded_late(nodes))
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_text(one)]
    return _File(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imported, late)


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _loaded_late(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield ``workbench.zoo.`` for ``import_module(f"workbench.zoo.{name}")``."""
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            text = node.args[0]
            if isinstance(text, ast.JoinedStr) and isinstance(text.values[0], ast.Constant):
                yield str(text.values[0].value)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
