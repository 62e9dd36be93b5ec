"""Work of different nodes on several cores at once, with the results of one after the other.

A node's work may begin when the virtual core is taken, and is needed when its virtual seconds are
over; until then the work of other nodes may run beside it. That changes nothing as long as work
touches nothing but its own node's state, and nobody reads that state meanwhile. State is kept in a
`Synchronized`, which lends it to one piece of work at a time and has everyone else wait; closures,
arguments and global variables that others could change are refused. What functions that work calls
reach, and global generators of random numbers, are not checked here: `in_order` is for these, and
trainings find out by themselves (`workbench.training.draws`).
"""

from __future__ import annotations

import dis
import inspect
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import fields
from functools import cache, partial
from types import CodeType, CoroutineType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

from workbench.checks import check_truth, check_whole
from workbench.errors import UserError
from workbench.runtime.arguments import refuse_async

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

S = TypeVar("S")

THREADS_VARIABLE = "WORKBENCH_THREADS"


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
    in_order
        Work on it runs when the program asks for it, one after the other over all nodes: for work
        that draws from a global generator (PyTorch's, NumPy's, Python's), or calls what touches the
        state of others.
    """

    __slots__ = ("__weakref__", "_item", "_value", "in_order")

    def __init__(self, value: S, *, in_order: bool = False) -> None:
        check_truth("in_order", in_order)
        self._value: S = value
        other = _held.get(id(value))
        if other is not None and other._value is value and not _is_immutable(value):
            raise UserError(
                f"two Synchronized hold the same {type(value).__name__}, so that none waits for "
                "the other; give both nodes the one that there is"
            )
        _held[id(value)] = self
        self.in_order = in_order
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
            self._item.finish()
            self._item = None
        return self._value

    def prepare(self, work: Callable[[S], Any]) -> WorkItem:
        """Make work on the state ready to run."""
        self._item = WorkItem(partial(work, self.value))
        return self._item


class WorkItem:
    """Work that runs once, in whichever thread comes first; its error is raised with its result."""

    __slots__ = ("_begun", "_done", "_error", "_result", "_work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self._begun, self._done = threading.Lock(), threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether it has run."""
        return self._done.is_set()

    @property
    def begun(self) -> bool:
        """Whether it runs or has run."""
        return self._begun.locked()

    def run(self) -> None:
        """Run it, unless it has begun."""
        if not self._begun.acquire(blocking=False):
            return
        work, self._work = self._work, None
        assert work is not None
        _working.here = True
        try:
            self._result = work()
        except KeyboardInterrupt as error:  # Ctrl-C comes to the main thread alone
            self._error = error
            raise
        except BaseException as error:
            self._error = error
        finally:
            _working.here = False
            self._done.set()

    def finish(self) -> None:
        """Wait until it has run; run it here if it has not begun."""
        self.run()
        self._done.wait()

    def result(self) -> Any:
        """What it returned; raises what it raised."""
        self.finish()
        if self._error is not None:
            raise self._error
        if isinstance(self._result, CoroutineType):
            self._result.close()
            refuse_async(self._result)
        return self._result


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

    def start(self, work: Callable[[S], Any], state: Synchronized[S]) -> WorkItem:
        """Begin work on a state, now or when its result is needed at the latest."""
        item = state.prepare(work)
        if self.count == 1 or state.in_order:
            item.run()
            return item
        busy = self._latest is not None and not self._latest.done
        alone = self._alone if self._alone is not None and not self._alone.begun else None
        if not busy and alone is None:
            self._alone = item
            return item
        self._alone = None
        for one in (alone, item):
            if one is not None:
                self._submit(one)
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

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None


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


def check_isolated(work: Any, on: Any) -> None:
    """Refuse work that could reach more than its state: allowed are functions without a closure."""
    if not isinstance(on, Synchronized):
        raise TypeError(f"compute is given {on!r} as `on`; give Synchronized(state)")
    function, arguments = work, tuple[Any, ...]()
    if isinstance(work, partial):
        function, arguments = work.func, (*work.args, *work.keywords.values())
    if isinstance(function, FunctionType):
        arguments += (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not isinstance(function, FunctionType) or function.__closure__:
        raise TypeError(
            f"the work of compute, {work!r}, could reach more than the state that it is given as "
            "`on`; give a function of that state alone, such as a class's method "
            "(Replica.learn, not replica.learn), with functools.partial for its other arguments; "
            "or leave `on` out, so that it runs in order"
        )
    check_signature(function)
    for name in _reached(function.__code__):
        reached = function.__globals__.get(name)
        if not (callable(reached) or isinstance(reached, ModuleType) or _is_immutable(reached)):
            raise TypeError(
                f"{function.__name__} looks at the global {name!r}, a {type(reached).__name__}, "
                "which work of other nodes may change while it runs; put it into the state, or "
                "leave `on` out"
            )
    for argument in arguments:
        if not _is_immutable(argument):
            raise TypeError(
                f"{function.__name__} is given a {type(argument).__name__}, which somebody else "
                "may change while it runs; give numbers, text, tuples of these, arrays that "
                "cannot be written to (array.flags.writeable = False), or put it into the state"
            )


def check_signature(function: FunctionType) -> None:
    """Refuse a coroutine function, and one that takes nothing."""
    code = function.__code__
    if code.co_flags & inspect.CO_COROUTINE:
        raise TypeError(
            f"the work of compute, {function.__name__}, is a coroutine function; give a plain one"
        )
    if not (code.co_argcount or code.co_flags & inspect.CO_VARARGS):
        raise TypeError(
            f"{function.__name__} takes no argument; with `on`, work is a function of the state"
        )


@cache
def _reached(code: CodeType) -> tuple[str, ...]:
    """Global names that code reads or sets, in inner functions too."""
    names = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL")
    }
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return tuple(sorted(names.union(*map(_reached, inner))))


def _is_immutable(value: Any) -> bool:
    if value is None or isinstance(value, int | float | str | bytes | slice):
        return True
    if isinstance(value, tuple | frozenset):
        return all(map(_is_immutable, value))
    flags = getattr(value, "flags", None)  # of an array
    if flags is not None:
        base = value.base
        own = base is None or _is_immutable(base)
        return own and not getattr(flags, "writeable", True) and not value.dtype.hasobject
    parameters = getattr(type(value), "__dataclass_params__", None)
    frozen = parameters is not None and parameters.frozen
    return frozen and all(_is_immutable(getattr(value, one.name)) for one in fields(value))
