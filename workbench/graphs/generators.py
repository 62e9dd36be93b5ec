"""Random generators of Python and NumPy: a graph would hold what was drawn from them once.

Those of the process are looked at, wherever the user keeps them, before and after a forward pass.
Other threads may draw from them meanwhile, so it takes several passes to name a part that does.
"""

from __future__ import annotations

import gc
import pickle
import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
from torch import nn

T = TypeVar("T")
_KINDS = (random.Random, np.random.Generator, np.random.RandomState)
_PASSES = 3


def parts_that_draw(module: nn.Module, run: Callable[[], T]) -> tuple[T, list[str]]:
    """Return what a forward pass of a module gives, and the names of parts that draw in it."""
    generators = [
        one
        for one in gc.get_objects()
        if issubclass(type(one), _KINDS) and not issubclass(type(one), random.SystemRandom)
    ]
    before = _states(generators)
    result = run()
    pairs = zip(generators, before, _states(generators), strict=True)
    drawn = [one for one, first, last in pairs if first != last]
    if not drawn:
        return result, []
    found = [_drawing(module, drawn, run) for _ in range(_PASSES)]
    return result, [name for name in found[0] if all(name in names for names in found)]


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
    return [
        one.getstate() if isinstance(one, random.Random) else pickle.dumps(one)
        for one in generators
    ]
