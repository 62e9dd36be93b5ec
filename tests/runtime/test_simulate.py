"""Programs, links and cores, on cases computed by hand."""

from __future__ import annotations

import contextlib
import gc
import io
from collections.abc import Awaitable
from typing import Any

import pytest
from rich.console import Console

from tests.runtime.programs import LINK, computes, idle, pair, posts, receives, sends_bytes
from workbench.clusters import Cluster, Node
from workbench.runtime import (
    Context,
    DeadlockError,
    Message,
    Program,
    progress,
    simulate,
    simulation,
)
from workbench.runtime.simulation import Simulation


class TestReceiving:
    @pytest.mark.parametrize("sender", [None, "one"])
    @pytest.mark.parametrize("topic", [None, "a"])
    def test_late_reading_meets_messages_in_the_order_in_which_they_came(
        self, topic: str | None, sender: str | None
    ) -> None:
        async def late(context: Context) -> list[int]:
            await context.sleep(1)
            return [(await context.receive(topic, sender=sender)).payload for _ in range(4)]

        send = posts(*(Message(0, "a", number) for number in range(4)))
        assert simulate(pair(LINK), [send, late]).results[1] == [0, 1, 2, 3]


class TestTasks:
    def test_what_is_spawned_as_tasks_are_cut_off_never_begins(
        self, recwarn: pytest.WarningsRecorder
    ) -> None:
        begun = []

        async def ghost(context: Context) -> None:
            begun.append(context.now_s())
            context.send(1, Message(0, "boo"))

        async def task(context: Context) -> None:
            try:
                await context.sleep(9)
            finally:
                context.spawn(ghost(context))

        async def program(context: Context) -> None:
            context.spawn(task(context))
            await context.sleep(1)

        gc.collect()  # what other tests have left
        recwarn.clear()
        run = simulate(pair(LINK), [program, idle])
        gc.collect()
        assert (run.end_s, begun, run.links[0].messages) == (1, [], 0)
        assert not recwarn.list

    def test_waits_and_turns_end_with_their_program(self) -> None:
        """A timer or a turn of a node that is done must wake nothing while the others go on."""

        async def waits(context: Context) -> None:
            await context.receive("a", timeout_s=5)

        async def computes(context: Context) -> None:
            await context.compute(lambda: None, cost_s=3)

        async def program(context: Context) -> None:
            for _ in range(2):
                context.spawn(waits(context))
                context.spawn(computes(context))
            await context.sleep(1)

        async def goes_on(context: Context) -> None:
            await context.sleep(4)
            for topic in "ab":
                context.send(0, Message(1, topic))
            await context.sleep(4)
            await context.receive("never")

        with pytest.raises(DeadlockError) as caught:
            simulate(pair(LINK), [program, goes_on], trace=True)
        assert "ended at 1 s; unread: 'a' from two, 'b' from two" in str(caught.value)
        assert caught.value.run.trace is not None
        assert "compute" not in caught.value.run.trace.frame["lane"].to_list()


class TestRuns:
    def test_tells_progress_a_few_times_a_second(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Clock:
            """A sixteenth of a second passes from event to event."""

            now_s = 0.0

            def perf_counter(self) -> float:
                self.now_s += 0.0625
                return self.now_s

        async def program(context: Context) -> None:
            for _ in range(100):
                await context.sleep(1)

        counts: list[int] = []
        monkeypatch.setattr(simulation, "time", Clock())
        alone = Cluster([Node("a")])
        run = simulate(alone, [program], progress=lambda now_s, events: counts.append(events))
        assert counts == [*range(1, 102, 4), run.events]
        assert run.events == 102  # with the program's start and its end

    def test_shows_progress(self) -> None:
        output = io.StringIO()
        with progress.shown(9.5, Console(file=output, force_terminal=True)) as show:
            run = simulate(pair(LINK), [sends_bytes(1e6), idle], progress=show)
        assert f"1.000 of 9.5 virtual seconds, {run.events} events" in output.getvalue()
        assert simulate(pair(LINK), [sends_bytes(1e6), idle], progress=True).end_s == 1

    def test_text_counts_results_events_and_bytes(self) -> None:
        run = simulate(pair(LINK), [sends_bytes(1e6), receives(1)])
        assert str(run) == (
            f"done after 1 virtual seconds: 2 results, {run.events} events, "
            "1,000,000 bytes over 2 links"
        )


def test_a_task_may_end_in_the_instant_in_which_its_program_ends() -> None:
    async def parent(context: Context) -> int:
        context.spawn(context.sleep(1))
        await context.sleep(1)
        return 7

    run = simulate(pair(LINK), [parent, computes(1, 5)])
    assert (run.ended, run.results[0], run.end_s) == ("done", 7, 5)


def test_a_refused_timeout_leaves_nobody_waiting() -> None:
    async def receiver(context: Context) -> str:
        with pytest.raises(ValueError, match="timeout_s is -1"):
            await context.receive(timeout_s=-1)
        return (await context.receive("0", timeout_s=50)).topic

    assert simulate(pair(LINK), [sends_bytes(1, at_s=1), receiver]).results[1] == "0"


def test_a_timeout_in_the_instant_in_which_its_program_ends_ends_nothing_else() -> None:
    async def listens(context: Context) -> None:
        async def listen() -> None:
            with contextlib.suppress(TimeoutError):
                await context.receive("beat", timeout_s=1)

        context.spawn(listen())
        await context.sleep(1)

    assert simulate(pair(LINK), [listens, computes(1, 2)]).results == {0: None, 1: [2]}


class TestTasksByHand:
    def run(self, program: Program, *, cores: int = 1) -> Any:
        cluster = Cluster([Node("a", cores=cores), Node("b")], {(1, 0): LINK})
        run = simulate(cluster, [program, sends_bytes(1e6, to=0, at_s=2)])
        return run.results[0]

    def test_tell_their_result(self) -> None:
        async def fails() -> None:
            raise KeyError("lost")

        async def program(context: Context) -> list[Any]:
            tasks = [context.spawn(context.compute(lambda: 5, cost_s=1)), context.spawn(fails())]
            waits = [context.spawn(_caught(task)) for task in tasks]
            with pytest.raises(RuntimeError, match="the task has not ended; await it"):
                tasks[0].result()
            before = tasks[0].done()
            for one in waits:
                await one
            with pytest.raises(KeyError, match="lost"):
                tasks[1].result()
            done, *_ = tasks
            return [before, done.done(), done.result(), done.cancel(), done.cancelled()]

        assert self.run(program) == [False, True, 5, False, False]

    def test_cannot_cancel_themselves(self) -> None:
        async def program(context: Context) -> str:
            tasks: list[Any] = []

            async def work() -> str:
                await context.sleep(1)
                try:
                    tasks[0].cancel()
                except RuntimeError as error:
                    return str(error)
                return ""

            tasks.append(context.spawn(work()))
            return str(await tasks[0])

        assert self.run(program) == "a task cannot cancel itself; let it return"

    @pytest.mark.parametrize("sleeps_s", [(1.0,), (3.0,), (2.5, 0.5)])
    def test_leave_their_message_to_others(self, sleeps_s: tuple[float, ...]) -> None:
        """Before it comes, and in the very instant in which it comes, before and after it."""

        async def program(context: Context) -> str:
            task = context.spawn(context.receive("0"))
            for seconds in sleeps_s:
                await context.sleep(seconds)
            task.cancel()
            return (await context.receive()).topic

        assert self.run(program) == "0"

    @pytest.mark.parametrize("swapped", [False, True])
    @pytest.mark.parametrize("at_s", [0, 2])
    def test_the_first_of_several_in_one_instant_loses_no_message(
        self, at_s: float, swapped: bool
    ) -> None:
        """Whichever it is, the message that comes in that instant is read once."""

        async def program(context: Context) -> list[Any]:
            await context.sleep(at_s)
            works: list[Awaitable[Any]] = [context.sleep(3 - at_s), context.receive("0")]
            place, found = await context.first(*(works[::-1] if swapped else works))
            received = place == (0 if swapped else 1)
            message = found or await context.receive("0", timeout_s=0)
            assert message is not None
            return [message.topic, received]

        assert self.run(program)[0] == "0"

    @pytest.mark.parametrize("awaited", [True, False])
    def test_the_first_of_several_may_be_cancelled_by_one_of_them(
        self, awaited: bool, recwarn: pytest.WarningsRecorder
    ) -> None:
        """The others end with it, and take no message."""

        async def program(context: Context) -> list[Any]:
            tasks: list[Any] = []

            async def cancels() -> None:
                await context.sleep(1)
                tasks[0].cancel()
                await context.receive()

            async def waits() -> None:
                await context.first(cancels(), context.receive("0"))

            tasks.append(context.spawn(waits()))
            found = await _caught(tasks[0]) if awaited else ""
            await context.sleep(5)
            return [found, (await context.receive("0", timeout_s=0)).topic]

        assert self.run(program) == ["CancelledError" if awaited else "", "0"]
        assert not recwarn.list

    @pytest.mark.parametrize("wrong", [5, [1], None])
    def test_the_first_of_several_refuses_before_it_begins(self, wrong: Any) -> None:
        async def program(context: Context) -> list[str]:
            try:
                await context.first(context.receive("0"), wrong)
            except TypeError as error:
                return [str(error)[:14], (await context.receive("0")).topic]
            return []

        with pytest.warns(RuntimeWarning, match="never awaited"):
            assert self.run(program) == ["first is given", "0"]

    def test_the_first_of_several_may_fail(self) -> None:
        async def program(context: Context) -> str:
            return await _caught(context.first(context.sleep(5), context.receive(timeout_s=1)))

        assert self.run(program) == "TimeoutError"

    def test_several_may_be_done_already(self) -> None:
        async def program(context: Context) -> int:
            tasks = [context.spawn(context.sleep(at)) for at in (9, 1)]
            await context.sleep(2)
            return (await context.first(*tasks))[0]

        assert self.run(program) == 1


async def _caught(work: Awaitable[Any]) -> str:
    try:
        await work
    except BaseException as error:
        return type(error).__name__
    return ""


@pytest.mark.parametrize("by_sender", [False, True])
def test_reading_past_unread_messages_does_not_look_at_each(by_sender: bool) -> None:
    looks, count = 0, 400

    class Topic(str):
        def __eq__(self, other: object) -> bool:
            nonlocal looks
            looks += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    async def read(context: Context) -> list[str]:
        await context.sleep(1)
        sender = 0 if by_sender else None
        return [
            (await context.receive(str(number), sender=sender)).topic
            for number in reversed(range(count))
        ]

    send = posts(*(Message(0, Topic(number)) for number in range(count)))
    topics = simulate(pair(LINK), [send, read]).results[1]
    assert topics == [str(number) for number in reversed(range(count))]
    assert looks < 10 * count  # looking at each takes count / 2 times as many


def test_waits_that_were_answered_leave_no_timers() -> None:
    """The queue of events is no longer than what may still happen."""
    longest = 0

    async def hears(context: Context) -> None:
        nonlocal longest
        for _ in range(1_000):
            await context.receive(timeout_s=1e6)
            longest = max(longest, len(whole.env.queue))

    whole = Simulation(pair(LINK), [sends_bytes(*[1e6] * 1_000), hears])
    whole.run()
    assert longest < 150


@pytest.mark.parametrize("wait_s", [1.0, 0.0])
@pytest.mark.parametrize("order", [0, 1])
def test_what_arrives_as_the_wait_runs_out_is_received(order: int, wait_s: float) -> None:
    async def waits(context: Context) -> str:
        await context.sleep(1.0 - wait_s)
        return (await context.receive(timeout_s=wait_s)).topic

    cluster = Cluster([Node("a"), Node("b")], {(order, 1 - order): LINK})
    run = simulate(cluster, {order: sends_bytes(1e6, to=1 - order), 1 - order: waits})
    assert run.results[1 - order] == "0"
