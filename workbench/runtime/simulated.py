"""The `Context` of a simulated node: its awaitables are SimPy events."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Awaitable, Callable, Generator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import simpy
from simpy.events import Timeout

from workbench.runtime.faults import Purpose, stream
from workbench.runtime.host import CutOff, Host, SimulatedTask
from workbench.runtime.kernel import EXPIRY, refuse_endless
from workbench.runtime.messages import Message, Transfer, Wait
from workbench.runtime.threads import Synchronized, refuse_async
from workbench.utils.checks import UserError, is_number

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

Cost = float | Callable[[Any], float] | None
"""Seconds at speed 1; what says them of the work's result; or None for the work's own time."""


@types.coroutine
def happens(event: simpy.Event) -> Generator[simpy.Event, Any, Any]:
    """Wait for an event of the kernel."""
    return (yield event)


class SimulatedContext:
    """See `workbench.runtime.Context`.

    Its methods return coroutines, not bare generators, so that Python warns of a forgotten
    ``await``, which would otherwise skip the work in silence.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._env = host.state.env
        self._mailbox, self._cores = host.mailbox, host.cores
        self.node = host.index
        self.name = host.name
        self.peers = tuple(host.pipes)
        self.restarts = host.restarts

    @cached_property
    def random(self) -> np.random.Generator:
        """Generator of this node's own."""
        return stream(self._host.state.seed, Purpose.PROGRAM, self.node, self.restarts)

    def now_s(self) -> float:
        """Virtual seconds since the run began."""
        return self._env.now

    async def compute(
        self,
        work: Callable[..., T],
        *,
        cost_s: Cost,
        lane: str = "compute",
        label: str = "",
        on: Synchronized[Any] | None = None,
    ) -> T:
        """Do the work and charge its cost in virtual seconds."""
        check_cost(cost_s, label or lane)
        check_work(work, lane, label)
        host, env, cores = self._host, self._env, self._cores
        if cores.free:
            cores.free -= 1
        else:
            await self._turn()
        start_s = env.now
        try:
            if on is None:
                item, value = None, work()
                if isinstance(value, types.CoroutineType):
                    value.close()
                    refuse_async(work)
            else:
                if not isinstance(on, Synchronized):
                    raise TypeError(f"compute is given {on!r} as `on`; give Synchronized(state)")
                item = host.state.threads.start(work, on)
            if callable(cost_s):
                cost_s = cost_of(value if item is None else item.result(), cost_s, label or lane)
            assert cost_s is not None  # as checked
            took_s = host.speed.seconds_for(cost_s, start_s)
            if not start_s + took_s < math.inf:
                refuse_endless(f"{label or lane} of {host.name}")
            await happens(Timeout(env, took_s))
        finally:
            cores.release()
        if item is not None:
            value = item.result()
        if lane and (rows := host.state.rows) is not None:
            rows.append((host.name, lane, label, start_s, env.now, 0, "work"))
        return value

    async def _turn(self) -> None:
        turn = simpy.Event(self._env)
        self._cores.turns.append(turn)
        try:
            await happens(turn)
        except BaseException:
            if turn.triggered:
                self._cores.release()
            else:
                self._cores.turns.remove(turn)
            raise

    def send(self, to: int | str, message: Message) -> None:
        """Queue a message on the link."""
        host = self._host
        if not isinstance(message, Message):
            raise TypeError(
                f"{host.name} sends {message!r}; send a Message(context.node, topic, payload, "
                "size_bytes)"
            )
        if message.sender != host.index:
            raise UserError(
                f"{host.name} is node {host.index}, but sends a message {message.topic!r} whose "
                f"sender is {message.sender}; make it with sender=context.node"
            )
        pipe = host.pipes.get(to) if type(to) is int else None
        if pipe is not None:
            pipe.send(message)
            return
        cluster = host.state.cluster
        target = cluster.index(to)  # tells what is wrong, as `link` does; takes names, too
        if target == host.index:
            self._mailbox.deliver(message)
        else:
            cluster.link(host.index, target)
            host.pipes[target].send(message)

    async def receive(
        self,
        topic: str | None = None,
        *,
        sender: int | str | None = None,
        timeout_s: float | None = None,
    ) -> Message:
        """Wait for a message."""
        if not (topic is None or isinstance(topic, str)):
            raise TypeError(f"receive waits for topic {topic!r}; give text, or sender=...")
        if timeout_s is not None:
            check_seconds("timeout_s", timeout_s)
        if sender is not None:
            sender = self._host.state.cluster.index(sender)
        message = self._mailbox.take(topic, sender)
        if message is not None:
            return message
        wait = Wait(simpy.Event(self._env), topic, sender, self._env.now)
        self._mailbox.begin(wait)
        if timeout_s is not None:
            self._set_timer(wait, timeout_s)
        try:
            received: Message = await happens(wait.event)
        except CutOff:
            self._mailbox.give_up(wait)
            raise
        return received

    def _set_timer(self, wait: Wait, timeout_s: float) -> None:
        def expire(_: simpy.Event) -> None:
            self._mailbox.end(wait)
            wanted = wait.wanted(self._host.state.cluster.names)
            wait.event.fail(TimeoutError(f"no message{wanted} within {timeout_s} s"))

        until_s = self._env.now + timeout_s
        if not until_s < math.inf:
            refuse_endless(f"a wait of {self.name}")
        wait.timer = self._env.call_at(until_s, expire, EXPIRY)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        check_seconds("seconds to sleep", seconds)
        if not self._env.now + seconds < math.inf:
            refuse_endless(f"a sleep of {self.name}")
        await happens(Timeout(self._env, seconds))

    def spawn(self, work: Awaitable[T]) -> SimulatedTask[T]:
        """Run a coroutine beside the program."""
        _check_awaitable("spawn", work)
        return SimulatedTask(self._host, work)

    async def first(self, *works: Awaitable[T]) -> tuple[int, T]:
        """Wait for the first of several."""
        if not works:
            raise UserError("first is given nothing to wait for; give tasks or coroutines")
        for work in works:
            _check_awaitable("first", work)
        tasks = [work if isinstance(work, SimulatedTask) else self.spawn(work) for work in works]
        own = [task for task, work in zip(tasks, works, strict=True) if task is not work]
        places = [place for place, task in enumerate(tasks) if task.done()]
        ended = simpy.Event(self._env)

        def end(place: int) -> None:
            if not places:  # at once, before another one takes a message, too
                places.append(place)
                ended.succeed()
                for task in own:
                    if task is not tasks[place]:
                        task.end()

        try:
            for place, task in enumerate(tasks):
                task.waiting += 1
                task.ends.append(partial(end, place))
            if not places:
                await happens(ended)
            return places[0], tasks[places[0]].result()
        finally:
            places.append(-1)
            for task in tasks:
                task.waiting -= 1
            for task in own:
                task.end()

    def watch(self) -> list[Transfer]:
        """Collect this node's transfers."""
        transfers: list[Transfer] = []
        self._host.watchers.append(transfers)
        return transfers

    def record(self, value: Any) -> None:
        """Pass an observation to the observer, with the time and the node."""
        observer = self._host.state.observer
        if observer is not None:
            observer(self.now_s(), self.node, value)


def check_cost(cost_s: Any, what: str) -> None:
    """Refuse what a simulation cannot charge."""
    if callable(cost_s) or (is_number(cost_s) and 0 <= cost_s < math.inf):
        return
    if cost_s is None:
        raise UserError(
            f"cost_s of {what} is None, the time that the work takes, which no simulation can "
            "repeat; give its seconds, or measure"
        )
    check_seconds(f"cost_s of {what}", cost_s)


def cost_of(value: Any, cost_s: Callable[[Any], float], what: str) -> float:
    """Seconds of work that returned a value, which says them."""
    check_cost(seconds := cost_s(value), what)
    return seconds


def check_seconds(what: str, seconds: Any) -> None:
    """Refuse seconds that are not finite, or negative."""
    if not (is_number(seconds) and 0 <= seconds < math.inf):
        raise UserError(f"{what} is {seconds!r}; it must be a finite number, not negative")


def check_work(work: Any, lane: Any, label: Any) -> None:
    """Refuse work, or its place in the trace, that `Context.compute` cannot take."""
    if not callable(work):
        raise TypeError(
            f"the work of compute is {work!r}; give a function without arguments, such as "
            "lambda: step(batch), without calling it"
        )
    if not (isinstance(lane, str) and isinstance(label, str)):
        raise TypeError(f"compute has lane {lane!r} and label {label!r}; give text")


def _check_awaitable(by: str, work: Any) -> None:
    if inspect.isawaitable(work):
        return
    hint = f", called, as in context.{by}(work(context))" if callable(work) else ""
    if isinstance(work, list | tuple):
        hint = ", or several one by one" if by == "first" else ""
        for item in work:
            if inspect.iscoroutine(item):
                item.close()  # Python would warn that nobody awaited it
    raise TypeError(f"{by} is given {work!r}; give a coroutine{hint}")
