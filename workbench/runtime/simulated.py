"""The `Context` of a simulated node: its awaitables are SimPy events."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import simpy
from simpy.events import Timeout

from workbench.runtime.arguments import (
    check_seconds,
    check_spawned,
    check_topic,
    check_work,
    refuse_async,
)
from workbench.runtime.mailbox import Wait
from workbench.runtime.messages import Message, Transfer
from workbench.runtime.tasks import Task

if TYPE_CHECKING:
    import numpy as np

    from workbench.runtime.host import Host

T = TypeVar("T")


@types.coroutine
def _happens(event: simpy.Event) -> Generator[simpy.Event, Any, Any]:
    """Await an event of the kernel."""
    return (yield event)


class SimulatedContext:
    """See `workbench.runtime.Context`.

    What is awaited are coroutines, not bare generators, so that Python warns of a forgotten
    ``await``, which would otherwise skip the work in silence.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._env = host.simulation.env
        self._mailbox, self._cores = host.mailbox, host.cores
        self.node = host.index
        self.name = host.name
        self.peers = tuple(host.pipes)
        self.restarts = host.restarts

    @cached_property
    def random(self) -> np.random.Generator:
        """Generator of this node's own."""
        import numpy as np

        return np.random.default_rng([self._host.simulation.seed, 0, self.node, self.restarts])

    def now_s(self) -> float:
        """Virtual seconds since the run began."""
        return self._env.now

    async def compute(
        self, work: Callable[[], T], *, cost_s: float, lane: str = "compute", label: str = ""
    ) -> T:
        """Do the work and charge its cost in virtual seconds."""
        check_seconds(f"cost_s of {label or lane}", cost_s)
        check_work(work, lane, label)
        host, env, cores = self._host, self._env, self._cores
        if cores.free:
            cores.free -= 1
        else:
            turn = simpy.Event(env)
            cores.turns.append(turn)
            await _happens(turn)
        start_s = env.now
        try:
            value = work()
            if isinstance(value, types.CoroutineType):
                value.close()
                refuse_async(work)
            await _happens(Timeout(env, host.speed.seconds_for(cost_s, start_s)))
        finally:
            cores.release()
        if (rows := host.simulation.rows) is not None:
            rows.append((host.name, lane, label, start_s, env.now, 0))
        return value

    def send(self, to: int | str, message: Message) -> None:
        """Queue a message on the link."""
        host = self._host
        if not isinstance(message, Message):
            raise TypeError(
                f"{host.name} sends {message!r}, which is no message; send "
                "Message(context.node, topic, payload, size_bytes)"
            )
        if message.sender != host.index:
            raise ValueError(
                f"{host.name} is node {host.index}, but sends a message {message.topic!r} whose "
                f"sender is {message.sender}; make it with sender=context.node"
            )
        pipe = host.pipes.get(to) if type(to) is int else None
        if pipe is not None:
            pipe.send(message)
            return
        cluster = host.simulation.cluster
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
        if type(topic) is not str:
            check_topic(topic)
        if timeout_s is not None:
            check_seconds("timeout_s", timeout_s)
        if sender is not None:
            sender = self._host.simulation.cluster.index(sender)
        message = self._mailbox.take(topic, sender)
        if message is not None:
            return message
        wait = Wait(simpy.Event(self._env), topic, sender, self._env.now)
        if timeout_s is not None:
            self._set_timer(wait, timeout_s)
        self._mailbox.waits.append(wait)
        received: Message = await _happens(wait.event)
        return received

    def _set_timer(self, wait: Wait, timeout_s: float) -> None:
        def expire(_: simpy.Event) -> None:
            self._mailbox.waits.remove(wait)
            wanted = wait.wanted(self._host.simulation.cluster.names)
            wait.event.fail(TimeoutError(f"no message{wanted} within {timeout_s} s"))

        wait.timer = Timeout(self._env, timeout_s)
        wait.timer.callbacks.append(expire)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        check_seconds("seconds to sleep", seconds)
        await _happens(Timeout(self._env, seconds))

    def spawn(self, work: Awaitable[T]) -> Awaitable[T]:
        """Run a coroutine beside the program."""
        check_spawned(work)
        task = Task[T]()
        task.process = self._host.run(task.run(work), work)
        return task

    def watch(self) -> list[Transfer]:
        """Collect this node's transfers."""
        transfers: list[Transfer] = []
        self._host.watchers.append(transfers)
        return transfers
