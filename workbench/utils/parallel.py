"""Calls in parallel processes, for experiments of many separate trainings.

In such a process a training computes with one thread (``WORKBENCH_THREADS``): the other cores are
for the other processes. Results are the same as in one process.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from workbench.runtime.threads import THREADS_VARIABLE
from workbench.utils.checks import UserError

T = TypeVar("T")

ONE_CORE = dict.fromkeys((THREADS_VARIABLE, "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The environment of a process that others run beside."""
AHEAD = 2
"""Calls submitted ahead for each process, so that none waits for the caller's loop."""
IDLE_S = 300.0
"""Seconds without a call after which a process ends."""


def as_finished(
    function: Callable[..., T], calls: Sequence[tuple[Any, ...]], processes: int | None = None
) -> Iterator[tuple[int, T]]:
    """Call a function with each of these arguments, and yield each call's index and result.

    Whatever ends it before the last result, an error in the caller's loop too, cancels the other
    calls. Ctrl-C ends running processes at once; the next use starts others.

    Parameters
    ----------
    function
        Of a module, not of a cell: other processes import it. Its errors are raised here.
    calls
        Arguments of each call; they are sent to the other processes by pickle.
    processes
        At least 1; by default one for each core, or as many as the environment variable
        ``LOKY_MAX_CPU_COUNT`` says. One process, and a single call, run in this process.
    """
    if processes is not None and processes < 1:
        raise UserError(f"{processes} processes compute nothing; give at least 1, or None")
    import joblib

    count = min(len(calls), processes or joblib.cpu_count())
    if count <= 1:
        for at, arguments in enumerate(calls):
            yield at, function(*arguments)
        return
    from joblib.externals.loky import get_reusable_executor

    executor = get_reusable_executor(max_workers=count, timeout=IDLE_S, env=ONE_CORE)
    left = iter(enumerate(calls))
    running: dict[Future[T], int] = {}
    try:
        while True:
            with _ctrl_c_later():
                for at, arguments in islice(left, AHEAD * count - len(running)):
                    running[executor.submit(function, *arguments)] = at
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                at, result = running.pop(future), future.result()
                yield at, result
    finally:
        if running:
            _give_up(executor, running)


def _give_up(executor: Any, running: Collection[Future[Any]]) -> None:
    """End the processes at once.

    Not before each call has left the executor's own queue, which it does within a moment: its
    thread fails with a traceback where it finds a cancelled call there.
    """
    while not all(future.running() or future.done() for future in running):
        time.sleep(0.001)
    executor.shutdown(kill_workers=True)


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
