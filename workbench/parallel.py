"""Calls beside each other in processes of their own, for experiments of many separate trainings.

In such a process a training computes with one thread (``WORKBENCH_THREADS``): the other cores are
for the other processes. Where results come from makes no difference to them.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
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
        What a call raised.
    KeyboardInterrupt
        Ctrl-C: processes that compute are ended at once, and the next use starts others.

    Whatever ends it before the last result, an error in the caller's loop too, gives up the other
    calls. Ctrl-C in the moment in which processes start may have joblib print that one of them
    failed; nothing of it is left.
    """
    if processes is not None and processes < 1:
        raise ValueError(f"{processes} processes compute nothing; give at least 1, or None")
    import joblib

    count = min(len(calls), processes or joblib.cpu_count())
    if count <= 1:
        for at, arguments in enumerate(calls):
            yield at, function(*arguments)
        return
    beside = joblib.Parallel(n_jobs=count, return_as="generator_unordered")
    numbered: Iterator[tuple[int, T]] = iter(())
    try:
        with _silently_giving_up(), _no_ctrl_c_for_children():
            numbered = beside(
                joblib.delayed(_numbered)(function, *call) for call in enumerate(calls)
            )
        for at, result in numbered:
            yield at, result
    finally:
        with _silently_giving_up():
            del numbered  # which ends the processes if they are not done


def _numbered(function: Callable[..., T], at: int, arguments: tuple[Any, ...]) -> tuple[int, T]:
    from workbench.runtime.threads import THREADS_VARIABLE

    os.environ.setdefault(THREADS_VARIABLE, "1")  # the other cores are for the other processes
    return at, function(*arguments)


@contextmanager
def _no_ctrl_c_for_children() -> Iterator[None]:
    """Processes started here do not see Ctrl-C, which goes to all of a terminal or a kernel.

    This process does, and ends them. Left to themselves, each would die in a traceback of its own
    wherever it is, still importing for instance. Children inherit which signals are blocked.
    """
    resource_tracker.ensure_running()  # its own start would unblock the signal
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def _silently_giving_up() -> Iterator[None]:
    """No warning that calls are given up: it is what was asked for."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ tasks ", UserWarning)
        yield
