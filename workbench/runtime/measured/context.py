"""The `Context` of a real process: the simulated one on a real clock, with work in a thread."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import CoroutineType
from typing import Any, NamedTuple, TypeVar

import simpy
from simpy.events import Timeout

from workbench.runtime.host import Host
from workbench.runtime.measured.realtime import RealKernel
from workbench.runtime.simulated import (
    Cost,
    SimulatedContext,
    check_cost,
    check_work,
    cost_of,
    happens,
)
from workbench.runtime.threads import Synchronized, refuse_async

T = TypeVar("T")


class WorkTime(NamedTuple):
    """A piece of work: when it should have ended and did, and how long it took by itself."""

    lane: str
    label: str
    due_s: float
    end_s: float
    took_s: float
    cost_s: float


@dataclass
class Work:
    """Does a node's work, one piece after the other, in one thread.

    With `as_measured` a piece costs what it takes; else it is followed by a wait, until what it
    should cost is over.
    """

    as_measured: bool
    done: list[WorkTime] = field(default_factory=list)
    pending: int = 0

    def __post_init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "work", _one_thread)

    def start(self, work: Callable[[], Any], env: RealKernel) -> tuple[Future[Any], simpy.Event]:
        """Begin work; the event comes when it is done."""
        event = simpy.Event(env)
        self.pending += 1

        def end() -> None:
            self.pending -= 1
            event.succeed()

        future = self._executor.submit(work)
        future.add_done_callback(lambda _: env.pass_on(end))
        return future, event

    def warm_up(self) -> None:
        """Let PyTorch get ready, which takes a tenth of a second at the first gradient."""
        self.do(_first_gradient)

    def do(self, work: Callable[[], object]) -> None:
        """Do some work before the run."""
        self._executor.submit(work).result()

    def wait(self) -> None:
        """Wait for the work that was begun."""
        self._executor.shutdown()

    def close(self) -> None:
        """End the thread, once its work is done."""
        self._executor.shutdown(wait=False)


def _one_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _first_gradient() -> None:
    import torch
    from torch.nn import functional

    with torch.enable_grad():
        images = torch.ones(2, 1, 12, 12)
        kernels, rows = (
            torch.ones(shape, requires_grad=True) for shape in ((4, 1, 5, 5), (10, 64))
        )
        features = functional.max_pool2d(functional.conv2d(images, kernels).relu(), 2).flatten(1)
        loss = functional.cross_entropy(functional.linear(features, rows), torch.tensor([0, 1]))
        torch.autograd.backward(loss, torch.ones(()))  # with a gradient given it imports more


class MeasuredContext(SimulatedContext):
    """See `workbench.runtime.Context`."""

    def __init__(self, host: Host, work: Work) -> None:
        super().__init__(host)
        self._work = work
        self._clock: Callable[[], float] = host.state.env.clock  # type: ignore[attr-defined]

    def now_s(self) -> float:
        """Seconds since the run began, on its clock."""
        return self._clock()

    async def compute(
        self,
        work: Callable[..., T],
        *,
        cost_s: Cost,
        lane: str = "compute",
        label: str = "",
        on: Synchronized[Any] | None = None,
    ) -> T:
        """Do the work in a thread, and wait until its cost is over."""
        if cost_s is not None:
            check_cost(cost_s, label or lane)
        check_work(work, lane, label)
        host, env, cores = self._host, self._env, self._cores
        assert isinstance(env, RealKernel)
        if cores.free:
            cores.free -= 1
        else:
            await self._turn()
        start_s = self._clock()
        try:
            if on is not None and not isinstance(on, Synchronized):
                raise TypeError(f"compute is given {on!r} as `on`; give Synchronized(state)")
            future, done = self._work.start(work if on is None else on.prepare(work).result, env)
            await happens(done)
            took_s = self._clock() - start_s
            if on is None and isinstance(value := future.result(), CoroutineType):
                value.close()
                refuse_async(work)
            due_s = start_s + took_s
            if not (self._work.as_measured or cost_s is None):
                if callable(cost_s):
                    cost_s = cost_of(future.result(), cost_s, label or lane)
                due_s = start_s + host.speed.seconds_for(cost_s, start_s)
                if due_s > self._clock():
                    await happens(Timeout(env, due_s - env.now))
        finally:
            cores.release()
        end_s = self._clock()
        self._work.done.append(WorkTime(lane, label, due_s, end_s, took_s, due_s - start_s))
        result: T = future.result()
        if lane and (rows := host.state.rows) is not None:
            rows.append((host.name, lane, label, start_s, end_s, 0, "work"))
        return result
