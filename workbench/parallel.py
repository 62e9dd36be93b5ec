"""Calls beside each other in processes of their own, for experiments of many separate trainings.

A training computes with one thread, so that it repeats bit for bit; cores beside that one are for
other trainings. Where results come from makes no difference to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def as_finished(
    function: Callable[..., T], calls: Sequence[tuple[Any, ...]], processes: int | None = None
) -> Iterator[tuple[int, T]]:
    """Call a function with each of these arguments, and give each result once it is there.

    Parameters
    ----------
    function
        Of a module, not of a cell: other processes import it.
    calls
        Arguments of each call; they travel to the other processes by pickle.
    processes
        How many at most; one for each core by default, or as many as the environment variable
        ``LOKY_MAX_CPU_COUNT`` says. With one, and for a single call, nothing leaves this process.

    Yields
    ------
    tuple
        Which of the calls, and what it returned.

    Raises
    ------
    ValueError
        Less than one process.
    Exception
        What a call raised, Ctrl-C there or here included; the other calls are given up.
    """
    import joblib

    if processes is not None and processes < 1:
        raise ValueError(f"{processes} processes compute nothing; give at least 1, or None")
    count = min(len(calls), processes or joblib.cpu_count())
    if count <= 1:
        for at, arguments in enumerate(calls):
            yield at, function(*arguments)
        return
    beside = joblib.Parallel(n_jobs=count, return_as="generator_unordered")
    yield from beside(
        joblib.delayed(_numbered)(at, function, arguments) for at, arguments in enumerate(calls)
    )


def _numbered(at: int, function: Callable[..., T], arguments: tuple[Any, ...]) -> tuple[int, T]:
    return at, function(*arguments)
