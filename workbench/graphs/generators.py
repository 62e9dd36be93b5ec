"""Random generators of Python and NumPy: a graph would hold what was drawn from them once.

Those that the code of a module can name are looked at before and after a forward pass, and so are
seeds from the operating system, of generators that it makes itself. Other threads may draw
meanwhile, so it takes several passes to name a part that does.
"""

from __future__ import annotations

import pickle
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from types import CellType, FunctionType, ModuleType
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
from torch import Tensor, nn

T = TypeVar("T")
_KINDS = (random.Random, np.random.Generator, np.random.RandomState)
_PASSES = 3


def parts_that_draw(module: nn.Module, run: Callable[[], T]) -> tuple[T, list[str]]:
    """Return what a forward pass of a module gives, and the names of parts that draw in it."""
    with _seeds() as seeds:
        generators = [*_generators(module), seeds]
        before = _states(generators)
        result = run()
        pairs = zip(generators, before, _states(generators), strict=True)
        drawn = [generator for generator, first, last in pairs if first != last]
        if not drawn:
            return result, []
        passes = [_drawing(module, drawn, run) for _ in range(_PASSES)]
    return result, [name for name in passes[0] if all(name in names for names in passes)]


def _generators(module: nn.Module) -> list[Any]:
    """Generators among the globals of all files, and within a module's parts and their classes."""
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
    """Objects in a container, in attributes, or in defaults and the closure of a function."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple | deque | Set):
        return list(value)
    if isinstance(value, FunctionType):
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        cells = [cell for cell in value.__closure__ or () if cell != CellType()]  # not empty
        return [*defaults, *(cell.cell_contents for cell in cells)]
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


def _drawing(
    module: nn.Module, generators: Sequence[Any], run: Callable[[], object]
) -> dict[str, None]:
    """Names of parts in whose own code, not in that of their parts, a generator changes."""
    names = {part: name for name, part in module.named_modules()}
    running: list[nn.Module] = []
    state = _states(generators)
    drawing: dict[str, None] = {}

    def look() -> None:
        nonlocal state
        now = _states(generators)
        if running and now != state:
            drawing[names[running[-1]]] = None
        state = now

    def enter(part: nn.Module, *_: object) -> None:
        look()
        running.append(part)

    def leave(*_: object) -> None:
        look()
        running.pop()

    handles = [part.register_forward_pre_hook(enter) for part in names]
    handles += [part.register_forward_hook(leave) for part in names]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return drawing


def _states(generators: Sequence[Any]) -> list[Hashable]:
    return [_state(generator) for generator in generators]


def _state(generator: Any) -> Hashable:
    if isinstance(generator, list):
        return len(generator)
    return generator.getstate() if isinstance(generator, random.Random) else pickle.dumps(generator)
