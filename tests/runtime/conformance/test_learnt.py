"""What programs record, and what they have learnt when a run ends, however it ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.programs import LINK, UNIT_S, idle, pair, units
from tests.runtime.runtimes import Runtime
from workbench.clusters import Cluster, Node
from workbench.runtime import Context, Crash, ProgramError, Restart, SimulationError

Rows = list[tuple[float, int, Any]]


class Counter:
    """Counts once a unit, recording how far it is, and knows the count."""

    def __init__(self, until: int, *, fails: bool = False) -> None:
        self.counted, self.until, self.fails = [0], until, fails

    async def __call__(self, context: Context) -> None:
        while self.counted[0] < self.until:
            await context.sleep(UNIT_S)
            self.counted[0] += 1
            context.record(self.counted)
        if self.fails:
            raise ValueError("enough")

    def learnt(self) -> list[int]:
        return [*self.counted, self.until]


def observed(runtime: Runtime, cluster: Cluster, programs: Any, **options: Any) -> tuple[Any, Rows]:
    """The run, or that of its error, and what was recorded, as it was then."""
    rows: Rows = []

    def observe(at_s: float, node: int, value: list[int]) -> None:
        rows.append((at_s, node, value[0]))

    try:
        return runtime(cluster, programs, observer=observe, **options), rows
    except SimulationError as error:
        return error.run, rows


def test_observations_come_in_the_order_of_the_clock(runtime: Runtime) -> None:
    async def later(context: Context) -> None:
        await context.sleep(0.5 * UNIT_S)
        await Counter(2)(context)

    run, rows = observed(runtime, pair(), [Counter(2), later])
    times_s = [at_s for at_s, *_ in rows]
    assert times_s == sorted(times_s)
    for node, expected_s in enumerate([units(1, 2), units(1.5, 2.5)]):
        own = [(at_s, value) for at_s, which, value in rows if which == node]
        assert [value for _, value in own] == [1, 2]
        assert runtime.agrees([at_s for at_s, _ in own], expected_s)
    assert run.learnt == {0: [2, 2]}  # a function has learnt nothing


def test_run_that_is_stopped_has_what_was_learnt_until_then(runtime: Runtime) -> None:
    run, rows = observed(runtime, pair(), [Counter(1), Counter(99)], until_s=2.5 * UNIT_S)
    assert run.ended == "stopped"
    assert run.learnt[0] == [1, 1]
    assert run.learnt[1] == [len([row for row in rows if row[1] == 1]), 99]


def test_failure_keeps_what_all_have_recorded_and_learnt(runtime: Runtime) -> None:
    run, rows = observed(runtime, pair(), [Counter(2, fails=True), Counter(99)])
    assert run.ended == "failed"
    assert run.learnt[0] == [2, 2]
    assert [row[2] for row in rows if row[1] == 0] == [1, 2]
    assert run.learnt[1] == [len([row for row in rows if row[1] == 1]), 99]


class Waits(Counter):
    """Counts, then waits for a message that nobody sends; after a restart from 10 on."""

    async def __call__(self, context: Context) -> None:
        if context.restarts:
            self.counted, self.until = [10], 12
        await super().__call__(context)
        if not context.restarts:
            await context.receive()


def test_deadlock_keeps_what_was_learnt(runtime: Runtime) -> None:
    run, rows = observed(runtime, pair(), [Waits(1), idle])
    assert (run.ended, run.learnt) == ("deadlock", {0: [1, 1]})
    assert [row[1:] for row in rows] == [(0, 1)]


def test_crash_loses_no_observation(runtime: Runtime) -> None:
    run, rows = observed(runtime, pair(), [Waits(1), idle], faults=[Crash(0, 5 * UNIT_S)])
    assert [row[2] for row in rows] == [1]
    assert run.learnt == {0: [1, 1]}


def test_restarted_program_has_learnt_what_it_knows_last(runtime: Runtime) -> None:
    faults = [Crash(0, 5 * UNIT_S), Restart(0, 6 * UNIT_S)]
    run, rows = observed(runtime, pair(), [Waits(1), idle], faults=faults)
    assert [row[2] for row in rows] == [1, 11, 12]
    assert run.learnt == {0: [12, 12]}


def test_what_an_observer_raises_ends_the_run(runtime: Runtime) -> None:
    def refuse(at_s: float, node: int, value: Any) -> None:
        raise ArithmeticError("not this")

    with pytest.raises(ProgramError, match="not this") as raised:
        runtime(Cluster([Node("a")]), [Counter(1)], observer=refuse)
    assert isinstance(raised.value.__cause__, ArithmeticError)
    assert raised.value.run.ended == "failed"


def test_only_measured_programs_warm_up(runtime: Runtime) -> None:
    class Warm(Counter):
        def warm_up(self) -> None:
            self.until = 2

    assert runtime(pair(LINK), [Warm(1), idle]).learnt == {0: [1, 1] if runtime.exact else [2, 2]}
