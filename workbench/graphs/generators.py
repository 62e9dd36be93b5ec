"""Random generators of Python and NumPy: a graph would hold what was drawn from them once.

Those of the process are looked at, wherever the user keeps them, before and after a forward pass,
and so are seeds from the operating system, of those that it makes itself. Other threads may draw
meanwhile, so it takes several passes to name a part that does.
"""

from __future__ import annotations

import gc
import pickle
import random
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
from torch import nn

T = TypeVar("T")
_KINDS = (random.Random, np.random.Generator, np.random.RandomState)
_PASSES = 3


def parts_that_draw(module: nn.Module, run: Callable[[], T]) -> tuple[T, list[str]]:
    """Return what a forward pass of a module gives, and the names of parts that draw in it."""
    generators: list[Any] = [
        one
        for one in gc.get_objects()
        if issubclass(type(one), _KINDS) and not issubclass(type(one), random.SystemRandom)
    ]
    with _seeds() as seeds:
        generators.append(seeds)
        before = _states(generators)
        result = run()
        pairs = zip(generators, before, _states(generators), strict=True)
        drawn = [one for one, first, last in pairs if first != last]
        if not drawn:
            return result, []
        found = [_drawing(module, drawn, run) for _ in range(_PASSES)]
    return result, [name for name in found[0] if all(name in names for names in found)]


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
        found: bytes = urandom(count)
        return found

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
    found: dict[str, None] = {}

    def look() -> None:
        nonlocal state
        now = _states(generators)
        if running and now != state:
            found[names[running[-1]]] = None
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
    return found


def _states(generators: Sequence[Any]) -> list[Hashable]:
    return [_state(one) for one in generators]


def _state(generator: Any) -> Hashable:
    if isinstance(generator, list):
        return len(generator)
    return generator.getstate() if isinstance(generator, random.Random) else pickle.dumps(generator)
