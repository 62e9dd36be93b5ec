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


def _is_harmless_object(given: Any, seen: set[Any]) -> bool:
    """Whether a module, or something that it holds, reaches nothing but what it holds."""
    if id(given) in seen:
        return True
    seen.add(id(given))
    return _is_harmless_class(type(given), seen) and all(
        _is_harmless_held(name, value, seen) for name, value in vars(given).items()
    )


def _is_harmless_held(name: str, given: Any, seen: set[Any]) -> bool:
    if _is_constant(given) or isinstance(given, _own_kinds()):
        return True
    if isinstance(given, Mapping):
        hooks = name.endswith("_hooks")  # of a module
        return not (hooks and given) and all(_is_harmless_held("", v, seen) for v in given.values())
    if isinstance(given, list | tuple | set | frozenset):
        return all(_is_harmless_held("", one, seen) for one in given)
    if isinstance(given, type) or (
        callable(given) and not isinstance(getattr(type(given), "__call__", None), FunctionType)  # noqa: B004
    ):
        return _is_harmless_value(given, seen)
    return hasattr(given, "__dict__") and _is_harmless_object(given, seen)


def _own_kinds() -> tuple[type, ...]:
    """Types that a deep copy duplicates, without code of their own."""
    import torch

    tensors = (torch.Tensor, torch.dtype, torch.device, torch.Size, torch.Generator)
    return (*tensors, np.ndarray, np.generic, np.random.Generator, random.Random)


def _is_harmless_class(given: type, seen: set[Any]) -> bool:
    for one in given.__mro__:
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


def _is_harmless_function(given: FunctionType, seen: set[Any]) -> bool:
    if given in seen:
        return True
    seen.add(given)
    defaults = (*(given.__defaults__ or ()), *(given.__kwdefaults__ or {}).values())
    cells = set(given.__code__.co_freevars) - {"__class__"}  # which super() needs
    if cells or not all(map(_is_constant, defaults)):
        return False
    return _is_harmless_code(given.__code__, given.__globals__, seen)


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


def _is_harmless_value(given: Any, seen: set[Any]) -> bool:
    if isinstance(given, ModuleType):
        return given is math or given.__name__.split(".")[0] == "torch"
    if isinstance(given, FunctionType) and given.__module__.split(".")[0] != "torch":
        return _is_harmless_function(given, seen)
    if isinstance(given, type) and issubclass(given, BaseException):
        return True
    if callable(given):
        if getattr(given, "__self__", None) is not None and not isinstance(
            given.__self__, ModuleType
        ):
            return False
        return (getattr(given, "__module__", None) or "").split(".")[0] == "torch"
    return _is_constant(given)


def _is_constant(given: Any) -> bool:
    if isinstance(given, tuple | frozenset):
        return all(map(_is_constant, given))
    return given is None or isinstance(given, int | float | str | bytes)
