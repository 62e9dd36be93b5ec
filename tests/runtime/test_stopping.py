"""Runs that stop at a time, at a deadlock, at Ctrl-C or at a failure, and go on from there."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from tests.runtime.programs import LINK, idle, pair, receives, sends_bytes
from workbench.clusters import Cluster, Link, Node
from workbench.runtime import (
    Context,
    Crash,
    DeadlockError,
    Fault,
    LinkDown,
    Program,
    ProgramError,
    Restart,
    Simulation,
    SimulationError,
    SlowDown,
    simulate,
    simulation,
)

INTERRUPTED = Node("one", uplink_bps=[(0, 8e6), (0.5, 0), (9, 8e6)])


async def patient(context: Context) -> None:
    """Wait for good, after a wait that needs no timer any more."""
    await context.receive("0", timeout_s=1000)
    await context.receive("never")


class TestDeadlockBeforeATime:
    @pytest.mark.parametrize("until_s", [3.5, 1e6, None])
    def test_is_told_as_without_a_time(self, until_s: float | None) -> None:
        with pytest.raises(DeadlockError) as caught:
            simulate(pair(LINK), [sends_bytes(1e6, 1e6), receives(3)], until_s=until_s)
        assert "two (node 1) waits for a message since 2 s" in str(caught.value)
        assert (caught.value.run.ended, caught.value.run.end_s) == ("deadlock", 2)

    @pytest.mark.parametrize("until_s", [5, None])
    def test_an_unneeded_timer_hides_no_deadlock(self, until_s: float | None) -> None:
        with pytest.raises(DeadlockError, match="'never' since 1 s") as caught:
            simulate(pair(LINK), [sends_bytes(1e6), patient], until_s=until_s)
        assert caught.value.run.end_s == 1

    @pytest.mark.parametrize(
        "faults",
        [
            [LinkDown("one", "two", 10, 20)],
            [SlowDown("two", 10, 20, 2)],
            [Crash("one", 10), Restart("one", 20)],  # whose program has ended
        ],
    )
    def test_faults_that_wake_nobody_hide_no_deadlock(self, faults: list[Fault]) -> None:
        with pytest.raises(DeadlockError, match="since 1 s"):
            simulate(pair(LINK), [sends_bytes(1e6), receives(2)], faults=faults, until_s=5)

    @pytest.mark.parametrize(
        ("programs", "cluster", "faults", "received_s"),
        [
            ([sends_bytes(1e6, at_s=9), receives(1)], pair(LINK), [], [10]),
            ([sends_bytes(9e6), receives(1)], pair(LINK), [], [9]),
            ([sends_bytes(1e6), receives(1)], pair(Link([(0, 0), (9, 8e6)])), [], [10]),
            ([sends_bytes(1e6), receives(1)], pair(LINK, INTERRUPTED), [], [9.5]),
            ([sends_bytes(1e6), receives(1)], pair(Link(8e6, latency_s=9)), [], [10]),
            ([sends_bytes(1e6), receives(2)], pair(LINK), [Crash(1, 9)], None),
        ],
        ids=["sleeps", "is carried", "no bandwidth", "no uplink", "is under way", "crashes"],
    )
    def test_no_deadlock_while_anything_can_still_happen(
        self,
        programs: list[Program],
        cluster: Cluster,
        faults: list[Fault],
        received_s: list[float] | None,
    ) -> None:
        simulation = Simulation(cluster, programs, faults=faults)
        assert simulation.run(until_s=5).ended == "stopped"
        run = simulation.run()
        assert (run.ended, run.results.get(1)) == ("done", received_s)

    def test_a_restart_that_is_still_to_come_is_waited_for(self) -> None:
        async def asks(context: Context) -> float:
            if context.restarts == 0:
                await context.receive("never")
            await sends_bytes(1e6)(context)
            return context.now_s()

        faults = [Crash(0, 2), Restart(0, 9)]
        simulation = Simulation(pair(LINK), [asks, receives(1)], faults=faults)
        assert [simulation.run(until_s=at_s).ended for at_s in (1, 5, 9)] == ["stopped"] * 3
        assert simulation.run(until_s=99).results == {0: 9, 1: [10]}

    def test_what_happens_at_that_time_comes_after_it(self) -> None:
        simulation = Simulation(pair(LINK), [sends_bytes(1e6), receives(1)], faults=[Crash(1, 1)])
        run = simulation.run(until_s=1)
        assert (run.ended, run.end_s, run.results) == ("stopped", 1, {0: None})
        last = simulation.run(until_s=1.5)
        assert (last.ended, last.results, last.links[0].lost) == ("done", {0: None}, 1)
        with pytest.raises(ValueError, match=r"until_s is 0\.5, but .* s are over already"):
            simulation.run(until_s=0.5)


def halting(error: type[BaseException], at: int) -> Program:
    """Ten steps of a second, one of which raises."""

    async def program(context: Context) -> float:
        def work(number: int) -> None:
            if number == at:
                raise error("now")

        for number in range(10):
            await context.compute(lambda number=number: work(number), cost_s=1)  # type: ignore[misc]
        return context.now_s()

    return program


async def seven(context: Context) -> float:
    await context.sleep(7)
    return context.now_s()


class TestGoingOn:
    """A program that was cut off is over; the others go on, and no earlier end stops them."""

    @pytest.mark.parametrize("first_s", [None, 6.0, 100.0])
    def test_after_ctrl_c(self, first_s: float | None) -> None:
        simulation = Simulation(pair(LINK), [halting(KeyboardInterrupt, 5), seven], trace=True)
        run = simulation.run(until_s=first_s)
        assert (run.ended, run.end_s, run.results) == ("interrupted", 5, {})
        later = simulation.run(until_s=6.5)
        assert (later.ended, later.end_s) == ("stopped", 6.5)
        last = simulation.run()
        assert (last.ended, last.end_s, last.results) == ("done", 7, {1: 7})
        assert last.trace is not None
        assert last.trace.frame["end_s"].to_list() == [1, 2, 3, 4, 5]

    def test_after_a_failure_and_a_later_error_is_its_own_programs(self) -> None:
        async def wrong(context: Context) -> None:
            await context.sleep(7)
            await asyncio.sleep(0)

        simulation = Simulation(pair(LINK), [halting(KeyError, 2), wrong])
        with pytest.raises(ProgramError, match=r"program of one .* failed at 2 s: KeyError: 'now'"):
            simulation.run(until_s=6)
        assert simulation.run(until_s=6.5).ended == "stopped"
        with pytest.raises(ProgramError, match=r"program of two .*\n?.*await only what"):
            simulation.run()
        with pytest.raises(SimulationError, match="make a new one"):
            simulation.run()

    @pytest.mark.parametrize(
        ("error", "said"),
        [(KeyboardInterrupt, "was interrupted at 5 s"), (ValueError, r"ValueError: now\) at 5 s")],
    )
    def test_waiting_for_a_failed_program_is_a_deadlock_that_says_why(
        self, error: type[BaseException], said: str
    ) -> None:
        simulation = Simulation(pair(LINK), [halting(error, 5), receives(1)])
        with contextlib.suppress(ProgramError):
            assert simulation.run().interrupted
        for _ in range(2):
            with pytest.raises(DeadlockError, match=f"one .*{said}"):
                simulation.run(until_s=50)

    def test_tasks_of_a_failed_program_end_and_its_node_does_not_restart(self) -> None:
        async def parent(context: Context) -> Any:
            context.spawn(halting(ZeroDivisionError, 99)(context))
            await context.sleep(2.5)
            raise KeyError

        faults = [Crash(0, 4), Restart(0, 5)]
        simulation = Simulation(pair(LINK), [parent, seven], faults=faults, trace=True)
        with pytest.raises(ProgramError):
            simulation.run()
        run = simulation.run()
        assert run.results == {1: 7}
        assert run.trace is not None
        assert len(run.trace.frame.filter(lane="compute")) == 2

    def test_ctrl_c_while_progress_is_told_cuts_nothing_off(self) -> None:
        def stop(now_s: float, events: int) -> None:
            raise KeyboardInterrupt

        simulation = Simulation(pair(LINK), [sends_bytes(1e6, 1e6), receives(2)])
        assert simulation.run(progress=stop).interrupted
        assert simulation.run().results[1] == [1, 2]

    def test_is_refused_where_an_event_was_cut_off(self) -> None:
        simulation = Simulation(pair(LINK), [sends_bytes(1e6, 1e6), receives(2)])

        def interrupt(_: object) -> None:
            raise KeyboardInterrupt

        simulation.env.timeout(1.5).callbacks.append(interrupt)
        assert simulation.run().interrupted
        with pytest.raises(SimulationError, match=r"middle of an event at 1\.5 s.* make a new one"):
            simulation.run()


def test_a_deadlock_ends_when_the_last_task_did() -> None:
    async def program(context: Context) -> None:
        context.spawn(context.compute(lambda: None, cost_s=4))
        await context.receive()

    with pytest.raises(DeadlockError) as caught:
        simulate(pair(LINK), [program, idle], trace=True)
    assert caught.value.run.end_s == 4


def test_a_run_leaves_the_collection_of_garbage_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_COLLECTED_EVERY", 1000)
    before, seen = gc.get_threshold(), []

    async def look(context: Context) -> None:
        seen.append(gc.get_threshold()[0])
        raise KeyError("wrong")

    nodes = [Node(f"n{at}") for at in range(200)]
    with pytest.raises(ProgramError, match="wrong"):
        simulate(Cluster(nodes), {0: look})
    assert seen == [max(before[0], 2_000)]
    assert gc.get_threshold() == before
