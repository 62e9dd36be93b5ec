"""Whether a module's steps may run beside those of its replicas, with the same bits.

A replica is a deep copy, so its tensors are its own. What is left is what its code reaches beyond
them: global variables, closures, class attributes, other packages, also through functions and
objects that it holds. PyTorch's own layers and the zoo's reach nothing; other code is inspected,
and whatever is not known to be harmless counts as reaching something.
"""

from __future__ import annotations

import builtins
import dis
import math
import random
from collections.abc import Mapping
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

_KNOWN = ("torch.nn.modules.", "workbench.zoo.")
_HARMLESS = {
    *("abs", "all", "any", "bool", "dict", "enumerate", "float", "int", "isinstance", "len"),
    *("list", "max", "min", "range", "reversed", "round", "set", "sorted", "str", "sum", "super"),
    *("tuple", "zip"),
}
_HARMLESS |= {name for name in dir(builtins) if name.endswith("Error")}
_WRITES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME"))
_REACHING = frozenset(("__class__", "__dict__", "__globals__", "__builtins__"))


def is_isolated(module: torch.nn.Module) -> bool:
    """Whether the module's code reaches nothing beyond the module itself."""
    seen: set[Any] = set()
    return all(_is_harmless_object(part, seen) for part in module.modules())


def _is_harmless_object(holder: Any, seen: set[Any]) -> bool:
    """Whether a module, or something that it holds, reaches nothing but what it holds."""
    if id(holder) in seen:
        return True
    seen.add(id(holder))
    return _is_harmless_class(type(holder), seen) and all(
        _is_harmless_held(name, value, seen) for name, value in vars(holder).items()
    )


def _is_harmless_held(name: str, value: Any, seen: set[Any]) -> bool:
    if _is_constant(value) or isinstance(value, _own_kinds()):
        return True
    if isinstance(value, Mapping):
        hooks = name.endswith("_hooks")  # of a module
        return not (hooks and value) and all(_is_harmless_held("", v, seen) for v in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(_is_harmless_held("", one, seen) for one in value)
    if isinstance(value, type) or (
        callable(value) and not isinstance(getattr(type(value), "__call__", None), FunctionType)  # noqa: B004
    ):
        return _is_harmless_value(value, seen)
    return hasattr(value, "__dict__") and _is_harmless_object(value, seen)


def _own_kinds() -> tuple[type, ...]:
    """Types that a deep copy duplicates, without code of their own."""
    import torch

    tensors = (torch.Tensor, torch.dtype, torch.device, torch.Size, torch.Generator)
    return (*tensors, np.ndarray, np.generic, np.random.Generator, random.Random)


def _is_harmless_class(kind: type, seen: set[Any]) -> bool:
    for one in kind.__mro__:
        if one is object or f"{one.__module__}.".startswith(_KNOWN) or one in seen:
            continue
        seen.add(one)
        if "__deepcopy__" in vars(one):  # replicas might share something
            return False
        for name, value in vars(one).items():
            inside = value.fget if isinstance(value, property) else value
            inside = inside.__func__ if isinstance(inside, staticmethod) else inside
            if isinstance(inside, FunctionType):
                if name != "__init__" and not _is_harmless_function(inside, seen):
                    return False
            elif not (name.startswith("__") or _is_constant(inside)):
                return False
    return True


def _is_harmless_function(function: FunctionType, seen: set[Any]) -> bool:
    if function in seen:
        return True
    seen.add(function)
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    cells = set(function.__code__.co_freevars) - {"__class__"}  # which super() needs
    if cells or not all(map(_is_constant, defaults)):
        return False
    return _is_harmless_code(function.__code__, function.__globals__, seen)


def _is_harmless_code(code: CodeType, names: dict[str, Any], seen: set[Any]) -> bool:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    if not all(_is_harmless_code(one, names, seen) for one in inner):
        return False
    for step in dis.get_instructions(code):
        for_super = step.opname == "LOAD_DEREF"  # of __class__, the only free variable
        if step.opname in _WRITES or (step.argval in _REACHING and not for_super):
            return False
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            name = step.argval
            if name in names:
                if not _is_harmless_value(names[name], seen):
                    return False
            elif name not in _HARMLESS:
                return False
    return True


def _is_harmless_value(value: Any, seen: set[Any]) -> bool:
    if isinstance(value, ModuleType):
        return value is math or value.__name__.split(".")[0] == "torch"
    if isinstance(value, FunctionType) and value.__module__.split(".")[0] != "torch":
        return _is_harmless_function(value, seen)
    if isinstance(value, type) and issubclass(value, BaseException):
        return True
    if callable(value):
        if getattr(value, "__self__", None) is not None and not isinstance(
            value.__self__, ModuleType
        ):
            return False
        return (getattr(value, "__module__", None) or "").split(".")[0] == "torch"
    return _is_constant(value)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_constant, value))
    return value is None or isinstance(value, int | float | str | bytes)
