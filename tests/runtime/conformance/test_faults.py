"""Crashes, restarts, slow-downs, outages and losses, as programs see them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.programs import (
    SIZE,
    UNIT_S,
    computes,
    idle,
    listens,
    pair,
    posts,
    receives,
    sends,
    units,
)
from tests.runtime.runtimes import Runtime
from workbench.runtime import (
    Context,
    Crash,
    DeadlockError,
    LinkDown,
    Lossy,
    Message,
    ProgramError,
    Restart,
    SlowDown,
    simulate,
)


def test_a_crash_ends_the_program(runtime: Runtime) -> None:
    steps = computes(100, UNIT_S)
    run = runtime(pair(), [steps, idle], faults=[Crash("one", 1.5 * UNIT_S)], trace=True)
    assert (run.ended, run.results) == ("done", {1: None})
    assert runtime.agrees(run.end_s, 1.5 * UNIT_S)
    assert run.trace is not None
    assert run.trace.frame["lane"].to_list().count("compute") == 1
    assert run.trace.frame.filter(lane="fault")["label"].to_list() == ["down"]


def test_a_restarted_program_begins_from_its_start(runtime: Runtime) -> None:
    async def program(context: Context) -> Any:
        before_s = context.now_s()
        drawn = context.random.random()
        await context.compute(lambda: None, cost_s=2 * UNIT_S)
        return context.restarts, drawn, [before_s, context.now_s()]

    faults = [Crash(0, 1.5 * UNIT_S), Restart(0, 3 * UNIT_S)]
    run = runtime(pair(), [program, idle], faults=faults, trace=True)
    restarts, drawn, times_s = run.results[0]
    assert restarts == 1
    assert runtime.agrees(times_s, units(3, 5))
    assert run.trace is not None
    (down,) = run.trace.frame.filter(lane="fault").rows()
    assert (*down[:3], down[6]) == ("one", "fault", "down", "fault")
    assert runtime.agrees(down[3:5], units(1.5, 3))
    assert runtime(pair(), [program, idle]).results[0][1] != drawn


def test_a_crash_after_the_program_ended_changes_nothing(runtime: Runtime) -> None:
    faults = [Crash(0, 1 * UNIT_S), Restart(0, 2 * UNIT_S)]

    async def returns(context: Context) -> int:
        return context.restarts

    run = runtime(pair(), [returns, receives(0)], faults=faults)
    assert run.results == {0: 0, 1: []}


def test_a_crash_loses_what_is_queued_and_under_way(runtime: Runtime) -> None:
    async def send_and_work(context: Context) -> None:
        await sends(1, 2, 1)(context)
        await context.sleep(20 * UNIT_S)

    run = runtime(pair(), [send_and_work, listens], faults=[Crash(0, 2 * UNIT_S)])
    assert run.results[1] == ["0"]
    assert run.links[0].lost == 2


def test_what_reaches_a_node_that_is_down_is_lost(runtime: Runtime) -> None:
    faults = [Crash(1, 2 * UNIT_S), Restart(1, 5 * UNIT_S)]
    run = runtime(pair(), [sends(1, 2, 1, 2), listens], faults=faults)
    assert run.results[1] == ["3"]
    assert run.links[0].lost == 2  # the first was read before, and is gone with its reader


def test_peers_of_a_crashed_node_hear_silence(runtime: Runtime) -> None:
    async def beats(context: Context) -> None:
        while True:
            context.send(1, Message(0, "beat", control=True))
            await context.sleep(UNIT_S)

    async def notices(context: Context) -> bool:
        await context.receive("beat")
        try:
            while True:
                await context.receive("beat", timeout_s=4 * UNIT_S)
        except TimeoutError:
            return True

    run = runtime(pair(), [beats, notices], faults=[Crash(0, 2.5 * UNIT_S)])
    assert run.results == {1: True}


def test_a_slow_down_stretches_what_is_computed_meanwhile(runtime: Runtime) -> None:
    faults = [SlowDown("one", 0, 2 * UNIT_S, 4), LinkDown("one", "two", 3 * UNIT_S)]
    run = runtime(pair(), [computes(2, UNIT_S), idle], faults=faults, trace=True)
    assert runtime.agrees(run.results[0], units(2.5, 3.5))
    assert run.trace is not None
    labels = run.trace.frame.filter(lane="fault")["label"].to_list()
    assert labels == ["4 times slower", "link to two down"]


def test_a_link_that_is_down_loses_what_is_under_way_and_sent(runtime: Runtime) -> None:
    async def send_each(context: Context) -> None:
        for number in range(4):
            context.send(1, Message(0, str(number), None, 0.5 * SIZE))
            await context.sleep(1.5 * UNIT_S)

    outage = LinkDown(0, 1, 1.75 * UNIT_S, 4 * UNIT_S)  # within the second; the third falls in it
    run = runtime(pair(), [send_each, listens], faults=[outage])
    assert run.results[1] == ["0", "3"]
    assert run.links[0].lost == 2


def test_a_lossy_link_loses_the_same_messages(runtime: Runtime) -> None:
    send_many = posts(*(Message(0, str(number), None, 1.0) for number in range(200)))
    faults = [Lossy(0, 1, 0.25)]
    run = runtime(pair(), [send_many, listens], faults=faults, seed=3)
    same = simulate(pair(), [send_many, listens], faults=faults, seed=3)
    assert run.results[1] == same.results[1]
    assert run.links[0][:5] == same.links[0][:5]
    assert 0 < run.links[0].lost < 200


def test_a_failing_program_ends_the_run(runtime: Runtime) -> None:
    async def breaks(context: Context) -> None:
        await context.sleep(UNIT_S)
        raise KeyError("broken")

    with pytest.raises(ProgramError, match=r"one \(node 0\) failed at .*'broken'") as caught:
        runtime(pair(), [breaks, receives(1)])
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.run.ended == "failed"
    assert caught.value.run.results == {}


def test_waiting_for_what_nobody_sends_is_a_deadlock(runtime: Runtime) -> None:
    async def waits(context: Context) -> None:
        await context.sleep(UNIT_S)
        await context.receive("3", sender=0)

    with pytest.raises(DeadlockError) as caught:
        runtime(pair(), [sends(1, 1, 1), waits])
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("deadlock: nothing is on its way any more")
    assert lines[1].startswith("  one (node 0) ended at ")
    assert "two (node 1) waits for a message '3' from one since " in lines[2]
    assert "unread: '0' from one, '1' from one, '2' from one" in lines[2]
    assert caught.value.run.results == {0: None}


def test_waiting_for_a_crashed_node_is_a_deadlock(runtime: Runtime) -> None:
    with pytest.raises(DeadlockError, match=r"one \(node 0\) is down after a crash"):
        runtime(pair(), [computes(1, 9), receives(1)], faults=[Crash(0, UNIT_S)])


def test_what_a_crashed_node_had_sent_hides_no_deadlock(runtime: Runtime) -> None:
    async def sends_and_waits(context: Context) -> None:
        await sends(0.1, 0.1)(context)
        await context.receive()

    with pytest.raises(DeadlockError, match=r"two \(node 1\) waits for a message since"):
        runtime(pair(), [sends_and_waits, receives(3)], faults=[Crash(0, 2 * UNIT_S)])


def test_a_run_stops_at_its_time(runtime: Runtime) -> None:
    run = runtime(pair(), [computes(100, UNIT_S), idle], until_s=2.5 * UNIT_S)
    assert (run.ended, run.results) == ("stopped", {1: None})
    assert runtime.agrees(run.end_s, 2.5 * UNIT_S)


def test_the_link_is_free_again_after_an_outage(runtime: Runtime) -> None:
    outage = LinkDown(0, 1, UNIT_S, 2 * UNIT_S)
    run = runtime(pair(), [sends(0.5, at=3), receives(1)], faults=[outage])
    assert runtime.agrees(run.results[1], units(3.5))
