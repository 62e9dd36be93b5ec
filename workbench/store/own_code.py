"""What a function of the user's rests on, defined in a notebook's cell or in a module of theirs.

Counted are its own source and, by name, the functions, classes, modules and values of the user's
that it uses. This package counts as a whole, and others by their version (`of_own_function`).
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import workbench
from workbench.store import provenance
from workbench.store.manifest import file_digest
from workbench.utils.checks import UserError

_PACKAGE = workbench.__name__
_DEFINITIONS = (FunctionType, type, ModuleType)


def of_own_function(function: Callable[..., object]) -> dict[str, str]:
    """Return a SHA-256 of each group of inputs that the rows of a user's function rest on."""
    return {
        "code": own_code(function),
        "package": provenance.of_package(),
        **provenance.of_machine(provenance.all_versions(), provenance.DECIDE_ROWS),
    }


def own_code(function: Callable[..., object]) -> str:
    """Return a SHA-256 of a function's source and of all of the user's that it uses by name.

    Raises UserError: its source cannot be read, or a value that it uses cannot be compared.
    """
    found: dict[str, str] = {}
    left: list[tuple[str, Any]] = [("", function)]
    while left:
        name, value = left.pop()
        where, kind = _place(value), getattr(value, "__qualname__", name)
        key = f"{where}.{kind}"
        if key in found:
            continue
        if where and not _is_own(where):
            continue
        if isinstance(value, FunctionType):
            found[key], used = _read(value)
            left += used
        elif isinstance(value, type):
            found[key] = repr(vars(value).get("__annotations__"))
            left += [(f"{kind}.{part}", at) for part, at in _parts(value)]
        elif isinstance(value, ModuleType):
            found[key] = file_digest(Path(value.__file__ or "")) or ""
            left += [at for at in vars(value).items() if isinstance(at[1], _DEFINITIONS)]
        elif not _is_of_package(name, value):
            found[key] = _of_value(name, value, function)
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


def _place(value: object) -> str:
    """The module that a definition is of; empty for other values."""
    if isinstance(value, ModuleType):
        return value.__name__
    return getattr(value, "__module__", None) or "" if hasattr(value, "__qualname__") else ""


def _is_of_package(name: str, value: object) -> bool:
    """Whether a value is one of this package's, such as a registry."""
    return any(
        getattr(module, name, None) is value
        for place, module in list(sys.modules.items())
        if place.partition(".")[0] == _PACKAGE
    )


def _is_own(module: str) -> bool:
    """Whether a module is neither installed nor of Python's library."""
    root = module.partition(".")[0]
    if root == "__main__":
        return True
    if root in sys.stdlib_module_names or root == _PACKAGE:
        return False
    try:
        specification = importlib.util.find_spec(root)
    except (ImportError, ValueError):
        return False
    places = [*(specification.submodule_search_locations or ())] if specification else []
    file = (specification and specification.origin) or (places[0] if places else "")
    return bool(file) and not {"site-packages", "dist-packages"} & set(Path(file).parts)


def _read(function: FunctionType) -> tuple[str, list[tuple[str, Any]]]:
    """Digest of a function's source, without comments and layout, and what it uses by name."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        raise UserError(
            f"the source of {function.__qualname__} cannot be read, so that finished points could "
            "not be told from those of another version; define it in a notebook's cell or a file"
        ) from None
    used = [
        (name, function.__globals__[name])
        for name in sorted(set(_globals(symtable.symtable(source, "source", "exec"))))
        if name in function.__globals__
    ]
    for node in ast.walk(tree):  # imported within it
        if isinstance(node, ast.Import):
            used += [(alias.name, module) for alias in node.names if (module := _own(alias.name))]
        elif isinstance(node, ast.ImportFrom) and node.module and (module := _own(node.module)):
            used += [(each.name, getattr(module, each.name, module)) for each in node.names]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest(), used


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield names that a piece of source takes from its module."""
    for symbol in table.get_symbols():
        if symbol.is_global() or (table.get_type() == "module" and symbol.is_referenced()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals(child)


def _own(module: str) -> ModuleType | None:
    """Import a module, if it is the user's."""
    return importlib.import_module(module) if _is_own(module) else None


def _parts(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield what a class consists of: its bases, methods and other attributes."""
    for base in kind.__bases__:
        yield base.__name__, base
    for name, part in vars(kind).items():
        function = getattr(part, "__func__", getattr(part, "fget", part))
        if isinstance(function, FunctionType):
            if (
                inspect.unwrap(function).__code__.co_filename != "<string>"
            ):  # generated: dataclasses
                yield name, function
        elif not name.startswith("__"):
            yield name, part


def _of_value(name: str, value: object, function: Callable[..., object]) -> str:
    from joblib.hashing import NumpyHasher

    class Hasher(NumpyHasher):  # type: ignore[misc]
        """As joblib's, but for tensors, which are not pickled alike in every process."""

        def save(self, part: Any) -> None:
            torch = sys.modules.get("torch")
            if torch is not None and isinstance(part, torch.Tensor):
                content = part.detach().cpu().flatten().view(torch.uint8).numpy()
                part = (str(part.dtype), tuple(part.shape), part.requires_grad, content)
            super().save(part)

    try:
        return str(Hasher(hash_name="sha1").hash(value))
    except Exception:  # whatever its own pickling raises
        raise UserError(
            f"{getattr(function, '__qualname__', function)} uses {name}, a {type(value).__name__} "
            "that cannot be pickled, so that nobody could say whether it has changed; make it "
            "within the function"
        ) from None
