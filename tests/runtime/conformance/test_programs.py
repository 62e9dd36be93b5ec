"""What a program's context offers: receiving, computing, tasks, its node."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from tests.runtime.programs import LINK, SIZE, UNIT_S, pair, receives, sends, units
from tests.runtime.runtimes import Runtime
from workbench.clusters import Cluster, Node, full_mesh
from workbench.runtime import Context, Message, ProgramError, Synchronized, simulate


def test_receiving_by_topic_and_sender_leaves_the_others_unread(runtime: Runtime) -> None:
    async def choosy(context: Context) -> list[tuple[int, str]]:
        await context.sleep(2 * UNIT_S)  # all are there
        got = [
            await context.receive("1", sender=2),
            await context.receive(sender="node2"),
            await context.receive("1"),
            await context.receive(),
        ]
        return [(message.sender, message.topic) for message in got]

    cluster = full_mesh(3, LINK)
    run = runtime(cluster, [choosy, sends(0.1, 0.1, to="node0"), sends(0.2, 0.2, to=0)])
    assert run.results[0] == [(2, "1"), (2, "0"), (1, "1"), (1, "0")]


def test_receiving_gives_up_after_a_timeout(runtime: Runtime) -> None:
    async def impatient(context: Context) -> Any:
        with pytest.raises(TimeoutError, match=r"no message '0' from one within 0\.2 s"):
            await context.receive("0", sender=0, timeout_s=UNIT_S)
        gave_up_s = context.now_s()
        message = await context.receive(timeout_s=100)
        return message.topic, [gave_up_s, context.now_s()]

    run = runtime(pair(), [sends(2), impatient])
    topic, times_s = run.results[1]
    assert topic == "0"
    assert runtime.agrees(times_s, units(1, 2))
    assert runtime.agrees(run.end_s, 2 * UNIT_S)  # not the second timeout's
    assert run.end_s < 100


def test_who_waits_longest_is_served_first(runtime: Runtime) -> None:
    async def take(context: Context, topic: str | None) -> str:
        return (await context.receive(topic)).topic

    async def node(context: Context) -> list[str]:
        tasks = [context.spawn(take(context, topic)) for topic in ("1", None, None)]
        return [await task for task in tasks]

    run = runtime(pair(), [sends(0, 0, 0, at=1), node])
    assert run.results[1] == ["1", "0", "2"]


@pytest.mark.parametrize("speed", [1.0, 0.5, [(0, 1), (UNIT_S, 0), (2 * UNIT_S, 1)]])
def test_a_result_is_there_when_the_cost_is_paid(runtime: Runtime, speed: Any) -> None:
    async def program(context: Context) -> tuple[int, float]:
        return await context.compute(lambda: 42, cost_s=1.5 * UNIT_S), context.now_s()

    value, end_s = runtime(Cluster([Node("a", speed=speed)]), [program]).results[0]
    expected = {1.0: 1.5, 0.5: 3.0}.get(speed, 2.5) if isinstance(speed, float) else 2.5
    assert value == 42
    assert runtime.agrees(end_s, expected * UNIT_S)


def test_a_result_says_what_its_work_cost(runtime: Runtime) -> None:
    async def program(context: Context) -> tuple[int, int, list[float]]:
        state = Synchronized([1])
        one = await context.compute(lambda: 2, cost_s=lambda value: value * UNIT_S)
        first_s = context.now_s()
        other = await context.compute(len, cost_s=lambda value: value * UNIT_S, on=state)
        return one, other, [first_s, context.now_s()]

    one, other, times_s = runtime(Cluster([Node("a", speed=0.5)]), [program]).results[0]
    assert (one, other) == (2, 1)
    assert runtime.agrees(times_s, units(4, 6))


def test_work_takes_its_own_time_on_a_real_clock_alone(runtime: Runtime) -> None:
    async def program(context: Context) -> tuple[float, float]:
        began_s = context.now_s()
        await context.compute(partial(time.sleep, UNIT_S), cost_s=None, lane="own")
        return began_s, context.now_s()

    slow = Cluster([Node("a", speed=1e-9)])  # which does not matter
    if runtime.exact:
        with pytest.raises(ProgramError, match=r"own is None, .* give its seconds, or measure"):
            runtime(slow, [program])
    else:
        began_s, end_s = runtime(slow, [program]).results[0]
        assert end_s - began_s >= UNIT_S


@pytest.mark.parametrize(("cores", "ends"), [(1, [1, 2, 4]), (2, [1, 1, 3]), (3, [1, 1, 2])])
def test_one_step_at_a_time_per_core(runtime: Runtime, cores: int, ends: list[float]) -> None:
    async def step(context: Context, cost: float) -> float:
        await context.compute(lambda: None, cost_s=cost * UNIT_S)
        return context.now_s()

    async def program(context: Context) -> list[float]:
        tasks = [context.spawn(step(context, cost)) for cost in (1, 1, 2)]
        return [await task for task in tasks]

    run = runtime(Cluster([Node("a", cores=cores)]), [program])
    assert runtime.agrees(run.results[0], units(*ends))


def test_messages_travel_while_a_node_computes(runtime: Runtime) -> None:
    async def program(context: Context) -> float:
        context.send(1, Message(0, "x", None, SIZE))
        await context.compute(lambda: None, cost_s=6 * UNIT_S)
        return context.now_s()

    run = runtime(pair(), [program, receives(1)])
    assert runtime.agrees([*run.results[1], run.results[0]], units(1, 6))


def test_work_changes_a_synchronized_state(runtime: Runtime) -> None:
    async def program(context: Context) -> list[int]:
        state = Synchronized([0])
        for number in range(5):
            await context.compute(lambda own, n=number: own.append(n), cost_s=0, on=state)  # type: ignore[misc]
        return state.value

    assert runtime(Cluster([Node("a")]), [program]).results[0] == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("with_state", [False, True])
def test_an_exception_of_work_reaches_who_awaits(runtime: Runtime, with_state: bool) -> None:
    async def program(context: Context) -> str:
        state = Synchronized([0]) if with_state else None
        try:
            await context.compute(lambda *_: 1 // 0, cost_s=0, on=state)  # type: ignore[arg-type]
        except ZeroDivisionError as error:
            return str(error)
        return ""

    assert "division" in runtime(Cluster([Node("a")]), [program]).results[0]


class OddError(Exception):
    """Its constructor does not take what `args` holds."""

    def __init__(self, *, key: str) -> None:
        super().__init__("text")
        self.key = key


def test_an_exception_of_a_task_reaches_who_awaits(runtime: Runtime) -> None:
    async def fail(context: Context) -> None:
        await context.sleep(0.01)
        raise OddError(key="k")

    async def program(context: Context) -> str:
        try:
            await context.spawn(fail(context))
        except OddError as error:
            return error.key
        return ""

    assert runtime(Cluster([Node("a")]), [program]).results[0] == "k"


def test_tasks_end_with_their_program(runtime: Runtime) -> None:
    async def for_ever(context: Context, ended: list[str]) -> None:
        try:
            while True:
                await context.compute(lambda: None, cost_s=UNIT_S)
        finally:
            ended.append("cut off")

    async def program(context: Context) -> list[str]:
        ended: list[str] = []
        context.spawn(for_ever(context, ended))
        await context.sleep(1.5 * UNIT_S)
        return ended

    run = runtime(Cluster([Node("a")]), [program])
    assert run.ended == "done"
    assert runtime.agrees(run.end_s, 1.5 * UNIT_S)


def test_a_cancelled_task_ends_where_it_waits_and_leaves_its_message(runtime: Runtime) -> None:
    async def program(context: Context) -> list[Any]:
        ended: list[str] = []

        async def work() -> None:
            try:
                await context.receive("0")
            finally:
                ended.append("yes")

        task = context.spawn(work())
        await context.sleep(0.01)
        cancelled = task.cancel()
        done = task.done(), task.cancelled(), list(ended)
        return [cancelled, *done, (await context.receive()).topic]

    run = runtime(pair(), [sends(1), program])
    assert run.results[1] == [True, True, True, ["yes"], "0"]


def test_a_cancelled_task_leaves_its_core_to_others(runtime: Runtime) -> None:
    async def program(context: Context) -> float:
        runs, turns = (context.spawn(context.compute(int, cost_s=9)) for _ in range(2))
        await context.sleep(UNIT_S)
        turns.cancel()
        runs.cancel()
        await context.compute(int, cost_s=UNIT_S)
        return context.now_s()

    run = runtime(Cluster([Node("a")]), [program])
    assert runtime.agrees(run.results[0], 2 * UNIT_S)
    assert run.end_s < 9


def test_the_first_of_several(runtime: Runtime) -> None:
    async def program(context: Context) -> list[Any]:
        slow = context.spawn(context.sleep(5 * UNIT_S))
        place, message = await context.first(slow, context.receive("0"), context.receive("1"))
        assert isinstance(message, Message)
        found = [place, message.topic, slow.done()]
        await slow
        return [*found, context.now_s()]

    *found, end_s = runtime(pair(), [sends(1), program]).results[1]
    assert found == [1, "0", False]
    assert runtime.agrees(end_s, 5 * UNIT_S)


def test_random_numbers_come_from_the_seed_and_the_node(runtime: Runtime) -> None:
    async def draws(context: Context) -> list[float]:
        return list(context.random.random(3))

    cluster = full_mesh(2, LINK)
    drawn = runtime(cluster, [draws] * 2, seed=7).results
    assert drawn == simulate(cluster, [draws] * 2, seed=7).results
    assert drawn[0] != drawn[1]


def test_a_context_says_where_it_is(runtime: Runtime) -> None:
    async def program(context: Context) -> Any:
        return context.node, context.name, context.peers, context.restarts

    run = runtime(full_mesh(3, LINK), {"node1": program})
    assert run.results == {1: (1, "node1", (0, 2), 0)}
