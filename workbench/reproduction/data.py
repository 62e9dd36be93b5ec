"""What experiments learn from: which data set at which scale, and which state of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from workbench import datasets
from workbench.reproduction.scales import Scaled
from workbench.utils.files import expanded

P = ParamSpec("P")
T = TypeVar("T")

AUTO = "auto"


def data_set(
    scale: str, paper: str, choice: str = AUTO, *, at_default: str = "cluttered_digits"
) -> str:
    """Name the data set to learn from, for `workbench.datasets.load`.

    At ``smoke`` the digits; at ``default`` `at_default`, usually the cluttered digits, on which
    accuracies can be told apart; at ``paper`` the paper's own, which `load` fetches, or refuses
    with what to do. Copies on this machine change nothing, so that every machine gets the same
    results.

    Parameters
    ----------
    scale
        One of `workbench.reproduction.parameters.SCALES`.
    paper
        What the paper learns from.
    choice
        What the user asks for, at any scale: a name or a path; ``"auto"`` for the above.
    """
    of_scale = Scaled(smoke="digits", default=at_default, paper=paper).at(scale)
    return of_scale if choice == AUTO else choice


def loaded_once(load: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """Keep what a function of a data set last returned; a user's file that changed is read again.

    Its first argument is the data set's name or path.
    """
    cached: Callable[..., T] = lru_cache(maxsize=2)(
        lambda changed_ns, source, *rest, **named: load(source, *rest, **named)
    )

    @wraps(load)
    def loaded(source: str, /, *rest: P.args, **named: P.kwargs) -> T:
        return cached(_changed_ns(source), source, *rest, **named)

    return loaded


@loaded_once
def digest(source: str) -> str:
    """Return the SHA-256 of a data set's images and labels."""
    sha, loaded = hashlib.sha256(), datasets.load(source)
    for array in (loaded.x_train, loaded.y_train, loaded.x_test, loaded.y_test):
        sha.update(f"{array.dtype} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _changed_ns(source: str) -> int:
    path = expanded(source)
    return path.stat().st_mtime_ns if source.endswith(".npz") and path.is_file() else 0
