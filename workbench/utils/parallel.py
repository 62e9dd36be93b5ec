"""Calls in parallel processes, here or on a Ray cluster, for experiments of many trainings.

In such a process a training computes with one thread (``WORKBENCH_THREADS``): the other cores are
for the other processes. Results are the same as in one process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pickle import PicklingError
from typing import Any, TypeVar

from workbench.runtime.threads import THREADS_VARIABLE
from workbench.utils import ray_cluster
from workbench.utils.checks import UserError

T = TypeVar("T")

ONE_CORE = dict.fromkeys((THREADS_VARIABLE, "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The environment of a process that others run beside."""
AHEAD = 2
"""Calls submitted ahead for each process, so that none waits for the caller's loop."""


def as_finished(
    function: Callable[..., T],
    calls: Sequence[tuple[Any, ...]],
    processes: int | None = None,
    address: str | None = None,
    *,
    in_other_process: bool = False,
) -> Generator[tuple[int, T], None, None]:
    """Call a function with each of these arguments, and yield each call's index and result.

    Whatever ends it before the last result, an error in the caller's loop too, cancels the other
    calls. Ctrl-C ends running processes at once; the next use starts others. Processes end
    with this one, however it ends.

    Other processes import the function, or get it by value if it is of a notebook's cell; its
    errors are raised here. There are as many `processes` as cores by default, or as the environment
    variable ``LOKY_MAX_CPU_COUNT`` says; one process, and a single call, run in this process unless
    `in_other_process`. Processes that have no call for five minutes end.

    `address` is that of a Ray cluster whose machines compute instead, ``"auto"`` or
    ``"ray://HOST:PORT"``.

    Raises UserError: a function or arguments that cannot be sent; a process that died; no such
    cluster.
    """
    if processes is not None and processes < 1:
        raise UserError(f"{processes} processes compute nothing; give at least 1, or None")
    if not calls:
        return
    if address is not None:
        yield from ray_cluster.as_finished(
            function, calls, address, at_once=processes, ahead=AHEAD, environment=ONE_CORE
        )
        return
    import joblib

    count = min(len(calls), processes or joblib.cpu_count())
    if count <= 1 and not in_other_process:
        for at, arguments in enumerate(calls):
            yield at, function(*arguments)
        return
    tasks = (
        joblib.delayed(_numbered)(at, function, arguments) for at, arguments in enumerate(calls)
    )
    results: Any = None
    try:
        with (
            _ctrl_c_later(),
            joblib.parallel_config(
                "loky", inner_max_num_threads=1, initializer=_begin, initargs=(os.getpid(),)
            ),
        ):
            results = joblib.Parallel(
                max(count, 2),  # joblib computes in this process if it has one; see `pre_dispatch`
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch=AHEAD * count if count > 1 else 1,
                max_nbytes=None,  # each call has arrays of its own, which it may change
            )(tasks)
        with _in_words():
            for numbered in results:  # noqa: UP028 - closed below, where its warning is not shown
                yield numbered
    finally:
        if results is not None:
            _give_up(results)


def _numbered(at: int, function: Callable[..., T], arguments: tuple[Any, ...]) -> tuple[int, T]:
    return at, function(*arguments)


def _begin(parent: int) -> None:
    """Prepare a process; it ends within a second of the one that started it, even of `kill -9`."""
    os.environ.update(ONE_CORE)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _give_up(results: Generator[Any, None, None]) -> None:
    """End the processes of calls that are left; joblib would warn that there are some.

    Its thread that hands calls out fails if it comes to one that is given up; by then it has ended
    the processes, and there is nothing to tell.
    """
    told = threading.excepthook

    def tell(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_type is not KeyError or "ExecutorManager" not in str(failed.thread):
            told(failed)

    threading.excepthook = tell
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.close()
    finally:
        threading.excepthook = told


@contextmanager
def _in_words() -> Iterator[None]:
    """Say what a user can do where joblib fails."""
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    try:
        yield
    except PicklingError as error:
        reason = str(error.__cause__ or error).strip('"\n ').rpartition("\n")[2]
        raise UserError(
            f"a call, or its result, cannot be sent between processes: {reason}. "
            "Make within the function what cannot be pickled, or use processes=1"
        ) from error
    except TerminatedWorkerError as error:
        raise UserError(
            "a process died: out of memory, or by a crash in compiled code; fewer processes beside "
            "each other need less memory"
        ) from error
    except BrokenProcessPool as error:
        reason = str(error.__cause__ or error).strip('"\n ').rpartition("\n")[2]
        raise UserError(
            f"a result, or an error, cannot be sent back from another process: {reason}. "
            "Raise errors that pickle, or use processes=1"
        ) from error


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Delay Ctrl-C, which a terminal or a kernel sends to all processes, until others are started.

    It is for this process only, which ends the others: otherwise each would die in a traceback of
    its own, still importing for instance. Children inherit which signals are blocked.
    """
    resource_tracker.ensure_running()  # its own start would unblock the signal
    pressed: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    here = callable(handler) and threading.current_thread() is threading.main_thread()
    if here:
        signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if here:
            signal.signal(signal.SIGINT, handler)
    for number in pressed:
        signal.raise_signal(number)
