"""Work of different nodes on several cores at once, with the results of one after the other.

A node's work may begin when the virtual core is taken, and is needed when its virtual seconds are
over; until then the work of other nodes may run beside it. That changes nothing as long as work
touches nothing but its own node's state, and nobody reads that state meanwhile. The first is a
promise, made by whoever makes a `Synchronized` with ``parallel=True``; where it can be checked, for
global generators of random numbers, it is. The second is the part of `Synchronized`, which lends
its state to one piece of work at a time and has everyone else wait.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar
from weakref import WeakValueDictionary

from workbench.utils.checks import UserError, check_truth, check_whole

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

S = TypeVar("S")

THREADS_VARIABLE = "WORKBENCH_THREADS"
_CHECK_EVERY = 16
"""Pieces of work; a look at the generators takes a tenth of a millisecond."""

_held: WeakValueDictionary[int, Synchronized[Any]] = WeakValueDictionary()  # by the state's id
_working = threading.local()  # whether this thread does a node's work


class Synchronized(Generic[S]):
    """State of a node that its work may change on another thread.

    Pass it to `Context.compute` as `on`. Keep no other reference to what is inside, nor to a part
    that work returns: a copy of that.

    Parameters
    ----------
    value
        The state.
    parallel
        Promises that work on it touches nothing else that changes, and that nothing in the run,
        from then on, draws from a global generator of random numbers (PyTorch's, NumPy's,
        Python's), which is an error. Such work may run beside that of other nodes. Otherwise work
        runs when the program asks for it, one piece after the other over all nodes.
    """

    __slots__ = ("__weakref__", "_item", "_value", "parallel")

    def __init__(self, value: S, *, parallel: bool = False) -> None:
        check_truth("parallel", parallel)
        self._value: S = value
        other = _held.get(id(value))
        same = other is not None and other._value is value
        if same and not isinstance(value, int | float | str | bytes | tuple | None):
            raise UserError(
                f"two Synchronized hold the same {type(value).__name__}, so that none waits for "
                "the other; give both nodes the one that there is"
            )
        _held[id(value)] = self
        self.parallel = parallel
        self._item: WorkItem | None = None

    @property
    def value(self) -> S:
        """The state, once all work requested on it is done."""
        if getattr(_working, "here", False):
            raise RuntimeError(
                "work looks at a Synchronized state; it is given its own, and what it needs of "
                "another comes as an argument or in a message"
            )
        if self._item is not None:
            self._item.run(wait=True)
            self._item = None
        return self._value

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """The state, once its work is done: a process may be stopped before anybody asks for it."""
        return None, {"_value": self.value, "_item": None, "parallel": self.parallel}

    def prepare(self, work: Callable[[S], Any]) -> WorkItem:
        """Make work on the state ready to run."""
        self._item = WorkItem(partial(work, self.value))
        return self._item


class WorkItem:
    """Work that runs once, in whichever thread comes first; its error is raised with its result."""

    __slots__ = ("_error", "_lock", "_result", "_work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work  # None once it has run
        self._lock = threading.Lock()  # held while it runs
        self._result: Any = None
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether it has run."""
        return self._work is None

    @property
    def begun(self) -> bool:
        """Whether it runs or has run."""
        return self.done or self._lock.locked()

    def run(self, *, wait: bool = False) -> None:
        """Run it, unless it has begun; then return, or wait for its end."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if self._work is not None:
                _working.here = True
                self._result = self._work()
        except KeyboardInterrupt as error:  # Ctrl-C comes to the main thread alone
            self._error = error
            raise
        except BaseException as error:
            self._error = error
        finally:
            _working.here = False
            self._work = None
            self._lock.release()

    def result(self) -> Any:
        """What it returned; raises what it raised."""
        self.run(wait=True)
        if self._error is not None:
            raise self._error
        if isinstance(self._result, CoroutineType):
            self._result.close()
            refuse_async(self._result)
        return self._result


def refuse_async(work: Any) -> NoReturn:
    """Raise a TypeError: work made a coroutine."""
    raise TypeError(
        f"the work of compute, {work!r}, made a coroutine; give a plain function, and await or "
        "spawn coroutines themselves"
    )


class Threads:
    """Runs work of several nodes at once, on up to `count` threads; with 1, where it is requested.

    Work that would run alone waits for whoever needs its result, so that a single node pays
    nothing for threads.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._executor: ThreadPoolExecutor | None = None
        self._alone: WorkItem | None = None
        self._latest: WorkItem | None = None
        self._watched: list[WorkItem] = []
        self._generators: GlobalGenerators | None = None

    def start(self, work: Callable[[S], Any], state: Synchronized[S]) -> WorkItem:
        """Begin work on a state, now or when its result is needed at the latest."""
        item = state.prepare(work)
        if state.parallel:
            if self._generators is None:
                self._generators = GlobalGenerators()
            if len(self._watched) >= _CHECK_EVERY:
                self._check()
            self._watched.append(item)
        if self.count == 1 or not state.parallel:
            item.run()
            return item
        busy = self._latest is not None and not self._latest.done
        alone = self._alone if self._alone is not None and not self._alone.begun else None
        if not busy and alone is None:
            self._alone = item
            return item
        self._alone = None
        for waiting in (alone, item):
            if waiting is not None:
                self._submit(waiting)
        return item

    def _submit(self, item: WorkItem) -> None:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            # A new thread's first products of matrices would be split among all cores, and sums
            # so rounded otherwise, until PyTorch notices how many threads it was limited to.
            torch = sys.modules.get("torch")
            limit = torch.set_num_threads if torch else None
            limited_to: tuple[Any, ...] = (torch.get_num_threads(),) if torch else ()
            self._executor = ThreadPoolExecutor(self.count, "workbench", limit, limited_to)
        self._executor.submit(item.run)
        self._latest = item

    def _check(self) -> None:
        """Raise a UserError if a global generator has moved since the first parallel work."""
        if self._generators is not None and (moved := self._generators.moved()):
            raise UserError(
                f"somebody drew from the global generator of {' and '.join(moved)} in a run with "
                "parallel work, so that results could depend on the threads. Draw from a generator "
                "of one's own (programs have context.random), or run work in order: without "
                "parallel=True in Synchronized, with parallel=False in the Setup of a training"
            )
        self._watched = [item for item in self._watched if not item.done]

    def settle(self) -> None:
        """Finish the parallel work that was begun."""
        for item in self._watched:
            item.run(wait=True)
        self._check()
        self._restore()

    def _restore(self) -> None:
        if self._generators is not None:
            self._generators.restore()
            self._generators = None

    def close(self) -> None:
        """Wait for what runs, end the threads, and give the global generators their states back."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
        self._restore()


def thread_count(threads: object = None) -> int:
    """Number of threads: the argument, else ``$WORKBENCH_THREADS``, else the cores."""
    name, what = "threads", threads
    if threads is None:
        name, what = THREADS_VARIABLE, os.environ.get(THREADS_VARIABLE) or None
        if what is None:
            has_affinity = hasattr(os, "sched_getaffinity")
            return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
        what = int(what) if what.isdecimal() else what
    return check_whole(name, what, 1)


class GlobalGenerators:
    """Watches the global generators of random numbers: Python's, and NumPy's and PyTorch's.

    They are set to states that no seed of a user's leads to, so that a seed and a draw show, too,
    even where another piece of work does just the same.
    """

    def __init__(self) -> None:
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        self._known: dict[str, tuple[Callable[[], Any], Callable[[Any], object], Any]] = {
            "Python": (random.getstate, random.setstate, random.Random(_ASIDE).getstate())
        }
        if numpy:
            own = numpy.random.RandomState([_ASIDE % 2**32, _ASIDE >> 32])
            get, put = numpy.random.get_state, numpy.random.set_state
            self._known["NumPy"] = (get, put, own.get_state())
        if torch:
            own = torch.Generator().manual_seed(_ASIDE)
            self._known["PyTorch"] = (torch.get_rng_state, torch.set_rng_state, own.get_state())
        self._before = {name: get() for name, (get, _, _) in self._known.items()}
        for _, put, aside in self._known.values():
            put(aside)

    def moved(self) -> list[str]:
        """Return the names of those that somebody has drawn from, or seeded, since."""
        return [
            name
            for name, (get, _, aside) in self._known.items()
            if _comparable(get()) != _comparable(aside)
        ]

    def restore(self) -> None:
        """Give them the states back that they had."""
        for name, (_, put, _) in self._known.items():
            put(self._before[name])


_ASIDE = 0x5DEECE66D1234567


def _comparable(state: Any) -> Any:
    """A state of NumPy's or PyTorch's as bytes."""
    if isinstance(state, tuple):
        return tuple(part.tobytes() if hasattr(part, "tobytes") else part for part in state)
    return state.numpy().tobytes()
