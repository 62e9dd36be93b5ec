"""Side effects of a forward pass that a graph would have once, or never: refused.

A module may not change its attributes, nor draw random numbers of Python or NumPy. Generators that
its code can name are looked at before and after a pass, and so are seeds from the operating system,
of generators that it makes itself.
"""

from __future__ import annotations

import pickle
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from types import CellType, FunctionType, MappingProxyType, ModuleType
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
from torch import Tensor, nn

from workbench.profiles.copies import held_tensors
from workbench.utils.checks import UserError

T = TypeVar("T")
_KINDS = (random.Random, np.random.Generator, np.random.RandomState)
_PASSES = 3


def run_watched(module: nn.Module, run: Callable[[], T]) -> tuple[T, bool]:
    """Run a forward pass; return its result, and whether it draws numbers of Python or NumPy.

    Other threads may draw meanwhile: it draws where it does in each of several passes.
    """
    with _seeds() as seeds:
        generators = [*_generators(module), seeds]
        before = _states(generators)
        result = run()
        is_drawing = _states(generators) != before
        for _ in range(_PASSES if is_drawing else 0):
            before = _states(generators)
            run()
            is_drawing = is_drawing and _states(generators) != before
    return result, is_drawing


def refuse_draws(name: str, *, is_drawing: bool) -> None:
    """Refuse a module that draws numbers of Python or NumPy."""
    if is_drawing:
        raise UserError(
            f"{name} draws random numbers of Python or NumPy in its forward pass, and a plan would "
            "repeat what is drawn once: draw them by PyTorch, as in torch.rand(()), or train "
            "without a budget"
        )


def _generators(module: nn.Module) -> list[Any]:
    """Generators among the globals of all files, and all that a module's code reaches."""
    waiting = [value for file in list(sys.modules.values()) for value in _inside(file)]
    waiting = [value for value in waiting if issubclass(type(value), _KINDS)]
    for part in module.modules():
        waiting += (part, *(value for kind in type(part).__mro__ for value in vars(kind).values()))
    seen: dict[int, Any] = {}
    while waiting:
        value = waiting.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            if not isinstance(value, Tensor | type | ModuleType):
                waiting += _inside(value)
    return [
        value
        for value in seen.values()
        if issubclass(type(value), _KINDS) and not isinstance(value, random.SystemRandom)
    ]


def _inside(value: Any) -> list[Any]:
    """Objects in a container, in attributes, or that a function reaches, but for PyTorch's own."""
    if isinstance(value, dict):
        return list(dict.values(value))  # those of transformers import on demand
    if isinstance(value, list | tuple | deque | set | frozenset):
        return list(value)
    if isinstance(value, FunctionType):
        if (value.__module__ or "").startswith("torch."):
            return []
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        cells = [cell for cell in value.__closure__ or () if cell != CellType()]  # not empty
        return [value.__globals__, *defaults, *(cell.cell_contents for cell in cells)]
    return list(getattr(value, "__dict__", {}).values())


@contextmanager
def _seeds() -> Iterator[list[Any]]:
    """List to which each seed is added that the operating system gives this thread.

    NumPy's generators and `secrets` ask for theirs through the first function, `random.Random()`
    through the second.
    """
    seeds: list[Any] = []
    here = threading.get_ident()
    urandom, seed = random._urandom, random.Random.seed  # type: ignore[attr-defined]

    def noting_urandom(count: int) -> bytes:
        seeds.extend([count] * (threading.get_ident() == here))
        octets: bytes = urandom(count)
        return octets

    def noting_seed(generator: random.Random, a: Any = None, version: int = 2) -> None:
        seeds.extend([a] * (a is None and threading.get_ident() == here))
        seed(generator, a, version)

    with (
        patch.object(random, "_urandom", noting_urandom),
        patch.object(random.Random, "seed", noting_seed),
    ):
        yield seeds


def _states(generators: Sequence[Any]) -> list[Hashable]:
    return [_state(generator) for generator in generators]


def _state(generator: Any) -> Hashable:
    if isinstance(generator, list):
        return len(generator)
    return generator.getstate() if isinstance(generator, random.Random) else pickle.dumps(generator)


def check_unchanged(
    name: str,
    module: nn.Module,
    held: Mapping[str, Tensor],
    before: Mapping[str, Hashable] = MappingProxyType({}),
) -> Mapping[str, Hashable]:
    """Refuse a forward pass that changed an attribute, as a plan would once; return attributes.

    `held` are the tensors that the module held, `before` its attributes. What a first pass wrote
    down, and a second did not, is a copy of what the module knows.
    """
    now = held_tensors(module)
    changed = [key for key, tensor in now.items() if held.get(key) is not tensor]
    attributes = {
        f"{prefix}.{key}".lstrip("."): _content(value)
        for prefix, part in module.named_modules()
        for key, value in vars(part).items()
        if key != "_flat_weights"  # in which a recurrent layer lists those that it is called with
    }
    changed += [key for key, value in attributes.items() if before.get(key, value) != value]
    if changed:
        raise UserError(
            f"{name} changes {changed[0]!r} in its forward pass, which a traced pass does not do: "
            "return it, or keep it in a buffer and write it in place, as in self.seen.copy_(…)"
        )
    return attributes


def _content(value: Any, met: frozenset[int] = frozenset()) -> Hashable:
    """Types, numbers and texts in a value, down through containers and attributes of objects."""
    if isinstance(value, int | float | complex | str | bytes | None):
        return type(value), repr(value)  # 1, 1.0 and True are equal; nan is not nan
    if isinstance(value, Tensor | nn.Module) or id(value) in met:
        return (type(value),)
    inside: Hashable
    within = partial(_content, met=met | {id(value)})
    if isinstance(value, np.ndarray):
        inside = value.shape, value.tobytes()
    elif isinstance(value, Mapping):
        inside = tuple((within(key), within(item)) for key, item in value.items())
    elif isinstance(value, Set):
        inside = frozenset(map(within, value))
    elif isinstance(value, list | tuple | deque):
        inside = tuple(map(within, value))
    else:
        inside = within(getattr(value, "__dict__", None))
    return type(value), inside
