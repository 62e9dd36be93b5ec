"""Runs that stop at a time, at a deadlock, at Ctrl-C or at a failure, and go on from there."""

from __future__ import annotations

import gc

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
    SlowDown,
    simulate,
    simulation,
)
from workbench.runtime.simulation import Simulation

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


def test_ctrl_c_while_progress_is_shown_ends_the_run() -> None:
    def stop(now_s: float, events: int) -> None:
        raise KeyboardInterrupt

    assert simulate(pair(LINK), [sends_bytes(1e6, 1e6), receives(2)], progress=stop).interrupted


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
