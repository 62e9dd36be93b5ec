"""Programs that fail, wait for ever or loop: one clear error, with the results so far."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.event_loop import in_event_loop
from tests.runtime.programs import LINK, computes, idle, pair, receives, sends_bytes
from workbench.clusters import Cluster, Node
from workbench.runtime import (
    Context,
    CutOffWarning,
    DeadlockError,
    Message,
    Program,
    ProgramError,
    Run,
    simulate,
)
from workbench.runtime.simulation import Simulation


async def ends_early(context: Context) -> str:
    """Finish, so that there is a result."""
    return await context.compute(lambda: "kept", cost_s=1)


def failing(action: Any) -> Program:
    """Do something wrong at two seconds."""

    async def program(context: Context) -> None:
        await context.sleep(2)
        result = action(context)
        if result is not None:
            await result

    return program


def failure(program: Program) -> ProgramError:
    cluster = Cluster([Node("good"), Node("bad")])
    with pytest.raises(ProgramError) as caught:
        simulate(cluster, [ends_early, program], trace=True)
    return caught.value


def holds_results(run: Run) -> bool:
    return run.results == {0: "kept"} and run.trace is not None and len(run.trace.frame) == 1


def test_a_task_that_nobody_awaits_fails_loudly() -> None:
    async def task(context: Context) -> None:
        await context.sleep(2)
        raise KeyError("lost")

    async def program(context: Context) -> None:
        context.spawn(task(context))
        await context.sleep(10)

    assert "program of bad (node 1) failed at 2 s: KeyError: 'lost'" in str(failure(program))


@pytest.mark.parametrize("in_notebook", [False, True])
@pytest.mark.parametrize("awaitable", [lambda: asyncio.sleep(0), lambda: asyncio.sleep(1)])
def test_awaiting_what_is_not_the_contexts_is_told(awaitable: Any, in_notebook: bool) -> None:
    def awaits() -> str:
        async def program(context: Context) -> None:
            await awaitable()

        return str(failure(program))

    async def cell() -> str:
        return awaits()

    with ThreadPoolExecutor(1) as thread:  # where no event loop runs
        message = in_event_loop(cell()) if in_notebook else thread.submit(awaits).result()
    assert "program of bad (node 1)" in message
    assert "in a program, await only what the context's methods return" in message


def test_other_errors_bear_no_such_hint() -> None:
    assert "await only" not in str(failure(failing(lambda context: {"a": 1}["key"])))


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
class TestErrorsThatAreNoException:
    """A program may raise what ends Python, or an event loop's task: its run is kept as ever."""

    def test_of_a_program(self, error: BaseException) -> None:
        async def program(context: Context) -> None:
            await context.sleep(2)
            raise error

        caught = failure(program)
        assert f"program of bad (node 1) failed at 2 s: {type(error).__name__}" in str(caught)
        assert caught.__cause__ is error
        assert holds_results(caught.run)

    def test_of_a_task(self, error: BaseException) -> None:
        async def task(context: Context) -> None:
            await context.sleep(1)
            raise error

        async def program(context: Context) -> bool:
            try:
                await context.spawn(task(context))
            except BaseException as caught:
                return caught is error
            return False

        assert simulate(Cluster([Node("a")]), [program]).results == {0: True}

    def test_while_it_is_cut_off(self, error: BaseException) -> None:
        async def stubborn(context: Context) -> None:
            try:
                await context.sleep(99)
            finally:
                raise error

        async def program(context: Context) -> str:
            for _ in range(2):
                context.spawn(stubborn(context))
            await context.sleep(1)
            return "done"

        warning = rf"a \(node 0\), cut off at 1 s, raised {type(error).__name__}"
        with pytest.warns(CutOffWarning, match=warning):
            run = simulate(Cluster([Node("a")]), [program])
        assert run.results == {0: "done"}


@pytest.mark.parametrize("error", [SystemExit(3), KeyError("display")])
def test_an_error_of_what_shows_progress_is_no_programs(error: BaseException) -> None:
    def show(now_s: float, events: int) -> None:
        raise error

    with pytest.raises(type(error)):
        simulate(pair(LINK), [sends_bytes(1e6), idle], progress=show)


def test_a_program_that_is_not_async_is_told() -> None:
    def program(context: Context) -> int:
        return 3

    assert "a program must be an `async def`" in str(failure(program))  # type: ignore[arg-type]


def test_sleep_too_short_for_the_clock_is_no_loop() -> None:
    async def program(context: Context) -> float:
        for _ in range(1000):
            await context.sleep(1e-300)
        await context.sleep(1)
        return context.now_s()

    assert simulate(pair(LINK), [program, idle]).results[0] == 1


@pytest.mark.parametrize("seconds", [1e308, 1.7e308])
def test_seconds_that_no_number_holds_are_refused(seconds: float) -> None:
    async def sleeps(context: Context) -> None:
        await context.sleep(1e308)
        await context.sleep(seconds)

    async def waits(context: Context) -> None:
        await context.sleep(1e308)
        await context.receive(timeout_s=seconds)

    for program in (computes(1, seconds), sleeps, waits):
        with pytest.raises(ProgramError, match=r"OverflowError.*would end after more seconds"):
            simulate(Cluster([Node("a", speed=0.1)]), [program])


def test_a_simulation_that_never_runs_leaves_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    gc.collect()  # what other tests have left
    recwarn.clear()
    Simulation(pair(LINK), [sends_bytes(1), idle])
    gc.collect()
    assert not recwarn.list


def test_a_forgotten_await_is_warned_of() -> None:
    async def program(context: Context) -> None:
        context.compute(lambda: None, cost_s=1)

    with pytest.warns(RuntimeWarning, match="compute' was never awaited"):
        simulate(pair(LINK), [program, idle])


def test_numpys_numbers_are_numbers() -> None:
    async def send(context: Context) -> None:
        sizes = np.array([5e5, 5e5])
        context.send(np.int64(1), Message(0, "x", None, sizes.sum(), sizes))  # type: ignore[arg-type]
        await context.sleep(np.float32(1.5))  # type: ignore[arg-type]

    async def hear(context: Context) -> float:
        await context.receive(sender=np.int8(0), timeout_s=np.float64(9))  # type: ignore[arg-type]
        return context.now_s()

    run = simulate(pair(LINK), {np.int64(0): send, np.int64(1): hear}, seed=np.int64(3))  # type: ignore[arg-type]
    assert (run.results[1], run.end_s) == (1, 1.5)


class TestDeadlock:
    def test_many_unread_messages_are_cut_short(self) -> None:
        async def waits(context: Context) -> None:
            await context.receive("never")

        with pytest.raises(DeadlockError, match=r"'7' from one, 12 more"):
            simulate(pair(LINK), [sends_bytes(*[1.0] * 20), waits])

    def test_of_tasks_and_of_nodes_without_a_program(self) -> None:
        async def waits(context: Context) -> None:
            context.send(1, Message(0, "lost"))
            await context.spawn(receives(1)(context))

        with pytest.raises(DeadlockError) as caught:
            simulate(pair(LINK), {0: waits})
        assert "two (node 1) has no program; unread: 'lost' from one" in str(caught.value)
        assert "one (node 0) waits for a message since 0 s" in str(caught.value)
