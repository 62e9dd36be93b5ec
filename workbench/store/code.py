"""The code that a function's result may rest on: its definition and all that it uses.

Only top-level definitions that are reached by name count, not whole modules, so that a chart may
change without the rows that it draws. What a module does when it is imported, other than defining,
counts as soon as anything of it does. Comments, docstrings and layout do not count.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import workbench

PACKAGE = Path(workbench.__file__).parent
STATEMENTS = "(statements)"
WHOLE = "(whole)"

Definition = tuple[str, str]
"""A module's dotted name, and that of a definition in it, or `STATEMENTS`, or `WHOLE`."""


def code(function: Callable[..., object]) -> str:
    """Return a SHA-256 of a function's definition and of all of the package that it may use."""
    return digest(used((function.__module__, function.__qualname__.partition(".")[0])))


def digest(definitions: Mapping[Definition, str]) -> str:
    """Return a SHA-256 of definitions with their digests."""
    return hashlib.sha256(repr(sorted(definitions.items())).encode()).hexdigest()


def used(start: Definition, package: Path = PACKAGE) -> dict[Definition, str]:
    """Return the digests of the definitions that one may use, itself and imported ones."""
    known = modules(package)
    found: dict[Definition, str] = {}
    seen, left = set[Definition](), [start]
    while left:
        module, name = here = left.pop()
        if here in seen or module not in known:
            continue
        seen.add(here)
        file = _read(known[module])
        parents = module.split(".")
        left += [(".".join(parents[:end]), STATEMENTS) for end in range(1, len(parents) + 1)]
        if name == WHOLE:
            left += [(module, part) for part in file.parts]
        elif name in file.parts:
            part = file.parts[name]
            found[here] = part.digest
            chains = (_imported(chain, file.imports) for chain in part.chains)
            left += [(module, chain[0]) for chain in part.chains if chain[0] in file.parts]
            left += [_definition(chain, known) for chain in chains if chain]
            left += [(other, WHOLE) for other in known if other.startswith(part.late)]
        elif name in file.imports:  # it is handed on
            left.append(_definition(file.imports[name], known))
    return found


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the files of a package's modules by their dotted names."""
    paths = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def imports(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield those of `known` modules that a file imports, for types or in functions, too."""
    for target in _read(path).targets:
        name = ".".join(target)
        module = name if name in known else name.rpartition(".")[0]
        if module in known:
            yield module


def _imported(chain: tuple[str, ...], imports: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """``("np", "array")`` as ``("numpy", "array")``; empty for a name that is not imported."""
    return (*imports[chain[0]], *chain[1:]) if chain[0] in imports else ()


def _definition(target: tuple[str, ...], known: Mapping[str, Path]) -> Definition:
    """The definition that a dotted name leads to: of the longest module that it begins with."""
    for end in range(len(target), 0, -1):
        module = ".".join(target[:end])
        if module in known:
            return module, target[end] if end < len(target) else WHOLE
    return "", WHOLE


@dataclass
class _Part:
    """Definitions of one name: digest, dotted names in it, and how names loaded late begin."""

    digest: str = ""
    chains: set[tuple[str, ...]] = field(default_factory=set)
    late: tuple[str, ...] = ()

    def add(self, node: ast.AST) -> None:
        """Count one more definition of the name, or statement."""
        self.digest = hashlib.sha256(f"{self.digest}{_dump(node)}".encode()).hexdigest()
        nodes = list(ast.walk(node))
        inner = {id(child.value) for child in nodes if isinstance(child, ast.Attribute)}
        self.chains |= {_chain(child) for child in nodes if id(child) not in inner} - {()}
        self.late += tuple(_late(nodes))


@dataclass(frozen=True)
class _File:
    """A module's definitions by name, and what it imports: by local name, and all."""

    parts: Mapping[str, _Part]
    imports: Mapping[str, tuple[str, ...]]
    targets: tuple[tuple[str, ...], ...]


def _read(path: Path) -> _File:
    return _parsed(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _parsed(path: Path, changed_ns: int) -> _File:
    del changed_ns  # a file that has changed is read again
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_text(statement)]
    parts = {STATEMENTS: _Part()}
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            for name in _names(node) or [STATEMENTS]:
                parts.setdefault(name, _Part()).add(node)
    imported = list(_imports(ast.walk(tree)))
    return _File(parts, dict(imported), tuple(target for _, target in imported))


def _dump(node: ast.AST) -> str:
    """A tree as text, the same in all versions of Python from 3.11 on."""
    shown: dict[str, Any] = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(node, **shown).replace(", type_params=[]", "")


def _names(node: ast.stmt) -> list[str]:
    """Names that a statement does nothing but define; none if it does more."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(targets, ast.Name):
        return [targets.id]
    inner = [element for target in targets or [] for element in getattr(target, "elts", [target])]
    names = [element.id for element in inner if isinstance(element, ast.Name)]
    return names if len(names) == len(inner) else []


def _chain(node: ast.AST) -> tuple[str, ...]:
    """``("np", "linalg", "norm")`` of ``np.linalg.norm``; empty for anything but such a name."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        before = _chain(node.value)
        return (*before, node.attr) if before else ()
    return ()


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = tuple(alias.name.split("."))
                yield alias.asname or target[0], target if alias.asname else target[:1]
                yield "", target
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                yield alias.asname or alias.name, (*node.module.split("."), alias.name)


def _late(nodes: Iterable[ast.AST]) -> Iterator[str]:
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
