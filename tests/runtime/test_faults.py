"""What programs see when nodes and links fail, on cases computed by hand."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc  # noqa: F401  # as pytest does while it tells of what garbage raised
from typing import Any

import pytest

from tests.runtime.programs import LINK, computes, idle, pair, posts, sends_bytes
from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.runtime import (
    Context,
    Crash,
    Fault,
    LinkDown,
    Lossy,
    Message,
    Restart,
    SlowDown,
    draw_faults,
    simulate,
)
from workbench.runtime.faults import Uptime, fault_rows


async def paired(context: Context) -> list[float]:
    """Two steps of a second at once; when each ended."""

    async def step() -> float:
        await context.compute(lambda: None, cost_s=1)
        return context.now_s()

    return [await task for task in [context.spawn(step()) for _ in range(2)]]


async def listen(context: Context) -> list[tuple[str, float]]:
    """All messages until none comes for ten seconds."""
    heard = []
    try:
        while True:
            message = await context.receive(timeout_s=10)
            heard.append((message.topic, context.now_s()))
    except TimeoutError:
        return heard


class TestCrash:
    @pytest.mark.parametrize("uplink_bps", [None, 8e6])
    def test_loses_what_is_queued_and_under_way_from_it(self, uplink_bps: float | None) -> None:
        async def send_and_work(context: Context) -> None:
            await sends_bytes(1e6, 1e6, 1e6)(context)
            await context.sleep(9)

        cluster = pair(LINK, Node("one", uplink_bps=uplink_bps))
        run = simulate(cluster, [send_and_work, listen], faults=[Crash(0, 1.5)])
        assert run.results[1] == [("0", 1.0)]
        assert run.links[0].lost == 2
        assert run.links[0].busy_s == 1.5

    @pytest.mark.parametrize("depth", [1, 3])
    def test_what_is_spawned_as_its_node_crashes_never_begins(self, depth: int) -> None:
        begun = []

        async def ghost(context: Context) -> None:
            begun.append(context.now_s())
            await context.sleep(1)
            context.send(1, Message(0, "boo"))

        async def haunted(context: Context, left: int) -> None:
            if left > 1:
                context.spawn(haunted(context, left - 1))
            try:
                await context.sleep(5)
            finally:
                for _ in range(2):
                    context.spawn(ghost(context))

        async def program(context: Context) -> None:
            await haunted(context, depth)

        run = simulate(pair(LINK), [program, listen], faults=[Crash(0, 2)])
        assert (run.results, begun) == ({1: []}, [])

    def test_a_message_that_was_not_read_is_lost(self) -> None:
        watched: list[list[Any]] = []

        async def program(context: Context) -> list[tuple[str, float]]:
            watched.append(context.watch())
            await context.sleep(3)
            return await listen(context)

        async def tell(context: Context) -> None:
            for number, at_s in enumerate((1, 6)):
                await context.sleep(at_s - context.now_s())
                context.send(1, Message(0, str(number)))

        run = simulate(pair(LINK), [tell, program], faults=[Crash(1, 2), Restart(1, 4)])
        assert [topic for topic, _ in run.results[1]] == ["1"]
        # each start of the program saw what its links did while it ran
        assert [[sent.topic for sent in transfers] for transfers in watched] == [["0"], ["1"]]

    def test_what_a_program_sends_when_cut_off_is_lost_and_what_it_awaits_ends_there(self) -> None:
        said = []

        async def stubborn(context: Context) -> None:
            try:
                await context.sleep(5)
            finally:
                context.send(1, Message(0, "last words"))
                said.append("first")
                try:
                    await context.compute(lambda: said.append("second"), cost_s=1)
                    said.append("never")
                finally:
                    said.append("third")
                    await context.receive(timeout_s=1)

        async def program(context: Context) -> list[float]:
            if context.restarts == 0:
                await stubborn(context)
            return await paired(context)

        run = simulate(pair(LINK), [program, listen], faults=[Crash(0, 1), Restart(0, 2)])
        assert said == ["first", "second", "third"]
        assert run.results == {0: [3, 4], 1: []}

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_program_that_will_not_end_takes_nothing_from_its_next_life(self) -> None:
        async def deaf(context: Context) -> None:
            while True:
                try:
                    await context.compute(lambda: None, cost_s=1)
                    await context.receive(timeout_s=5)
                except BaseException:
                    with contextlib.suppress(BaseException):
                        await context.receive(timeout_s=5)

        async def program(context: Context) -> list[Any]:
            if context.restarts == 0:
                context.spawn(deaf(context))
                await deaf(context)
            heard = (await context.receive(timeout_s=9)).topic
            return [heard, *await paired(context)]

        async def tell(context: Context) -> None:
            await context.sleep(3)
            context.send(0, Message(1, "x"))

        run = simulate(pair(LINK), [program, tell], faults=[Crash(0, 0.5), Restart(0, 2)])
        gc.collect()
        assert (run.results[0], run.end_s) == (["x", 4, 5], 5)

    def test_turns_for_a_core_end_with_a_crash(self) -> None:
        async def program(context: Context) -> list[float]:
            if context.restarts == 0:
                for _ in range(3):
                    context.spawn(computes(5, 1)(context))
                await context.sleep(99)
            return await paired(context)

        faults = [Restart(0, 2), Crash(0, 0.5)]  # in any order
        run = simulate(Cluster([Node("a", cores=1)]), [program], faults=faults)
        assert run.results[0] == [3, 4]

    def test_a_restart_keeps_what_programs_share_and_no_task(self) -> None:
        saved: list[int] = []
        heard: list[Any] = []

        async def learn(context: Context) -> None:
            context.spawn(ticking(context))
            while len(saved) < 4:
                await context.compute(lambda: saved.append(context.restarts), cost_s=1)

        async def ticking(context: Context) -> None:
            while True:
                await context.sleep(0.75)
                heard.append((context.restarts, context.now_s()))

        run = simulate(pair(LINK), [learn, idle], faults=[Crash(0, 2.5), Restart(0, 3)])
        assert saved == [0, 0, 0, 1]
        assert heard == [(0, 0.75), (0, 1.5), (0, 2.25), (1, 3.75)]
        assert run.end_s == 4

    def test_what_only_latency_delays_still_arrives(self) -> None:
        link = Link(8e6, latency_s=5)
        run = simulate(pair(link), [sends_bytes(1e6, 1e6), listen], faults=[Crash(0, 1.5)])
        assert run.results[1] == [("0", 6)]


def test_rows_of_a_trace_last_as_long_as_the_fault_and_end_with_the_run() -> None:
    faults = [
        SlowDown("one", 1.5, 3.5, 4),
        *(Crash("two", 2), Restart("two", 3), Crash("two", 5)),
        LinkDown("one", "two", 6, 9),
    ]
    assert fault_rows(faults, pair(LINK), end_s=6.5) == [
        ("one", "fault", "4 times slower", 1.5, 3.5, 0, "fault"),
        ("two", "fault", "down", 2, 3, 0, "fault"),
        ("two", "fault", "down", 5, 6.5, 0, "fault"),
        ("one", "fault", "link to two down", 6, 6.5, 0, "fault"),
    ]


class TestLinks:
    @pytest.mark.parametrize(("probabilities", "arrive"), [((0.25,), 1500), ((0.5, 0.5), 500)])
    def test_lossy_loses_about_that_share_each_by_itself_and_always_the_same(
        self, probabilities: tuple[float, ...], arrive: int
    ) -> None:
        programs = [posts(*(Message(0, str(at), None, 1.0) for at in range(2000))), listen]
        faults = [Lossy(0, 1, probability) for probability in probabilities]
        runs = [simulate(pair(LINK), programs, faults=faults, seed=seed) for seed in (1, 1, 2)]
        heard = [[topic for topic, _ in run.results[1]] for run in runs]
        assert heard[0] == heard[1] != heard[2]
        # binomial: a standard deviation of 19; five of them
        assert all(abs(len(topics) - arrive) < 100 for topics in heard)
        assert runs[0].links[0].lost == 2000 - len(heard[0])
        assert runs[0].links[0].messages == 2000

    def test_lossy_between_two_times(self) -> None:
        faults = [Lossy(0, 1, 1.0, from_s=1.5, to_s=2.5)]
        run = simulate(pair(LINK), [sends_bytes(1e6, 1e6, 1e6), listen], faults=faults)
        assert run.results[1] == [("0", 1), ("2", 3)]

    def test_outages_that_overlap_last_until_the_last_has_ended(self) -> None:
        async def send_each_second(context: Context) -> None:
            for number in range(7):
                await context.sleep(1)
                context.send(1, Message(0, str(number), None, 0.25e6))

        faults = [LinkDown(0, 1, 1.5, 5.5), LinkDown(0, 1, 2.5, 3.5), LinkDown(0, 1, 4.5, 6.5)]
        run = simulate(pair(LINK), [send_each_second, listen], faults=faults)
        assert run.results[1] == [("0", 1.25), ("6", 7.25)]
        assert run.links[0].lost == 5


def ends(fault: Fault) -> tuple[Any, ...]:
    """The node that a fault is of, or the two that its link joins."""
    if isinstance(fault, LinkDown | Lossy):
        return fault.source, fault.target
    assert isinstance(fault, Crash | Restart | SlowDown)
    return (fault.node,)


class TestDrawn:
    CLUSTER = full_mesh(4, LINK)

    def draw(self, seed: int = 1, cluster: Cluster = CLUSTER) -> tuple[Fault, ...]:
        every_s = {"crash_every_s": 100, "slow_every_s": 200, "link_down_every_s": 500}
        return draw_faults(seed, cluster, until_s=1000, down_s=10, **every_s)

    def test_the_same_seed_gives_the_same(self) -> None:
        assert self.draw() == self.draw() != self.draw(2)

    def test_come_as_often_and_last_as_long_as_asked(self) -> None:
        drawn = draw_faults(3, self.CLUSTER, until_s=1e6, slow_every_s=80, slow_s=20)
        lengths = [fault.to_s - fault.from_s for fault in drawn if isinstance(fault, SlowDown)]
        assert len(lengths) == len(drawn)
        # four nodes, one in 100 s on average: 40,000, whose mean length varies by 0.5 %
        assert len(lengths) == pytest.approx(40_000, rel=0.03)
        assert sum(lengths) / len(lengths) == pytest.approx(20, rel=0.03)

    def test_a_cluster_that_grows_keeps_the_faults_of_its_first_nodes_and_links(self) -> None:
        kept = [fault for fault in self.draw() if max(ends(fault)) < 3]
        assert len(kept) > 30
        assert tuple(kept) == self.draw(cluster=full_mesh(3, LINK))

    def test_every_node_and_link_fails_at_times_of_its_own(self) -> None:
        times = [
            fault.at_s if isinstance(fault, Crash) else fault.from_s
            for fault in self.draw()
            if isinstance(fault, Crash | SlowDown | LinkDown)
        ]
        assert len(set(times)) == len(times) > 60


@pytest.mark.parametrize(
    ("at_s", "process"), [(0.0, 0), (0.99, 0), (1.0, None), (1.9, None), (2.0, 1), (9.0, None)]
)
def test_process_that_is_up(at_s: float, process: int | None) -> None:
    uptime = Uptime(1, [Crash(1, 1.0), Restart(1, 2.0), Crash(1, 3.0)], int)
    assert uptime.process(at_s) == process
    assert uptime.processes == 2
    assert [uptime.lasts(restarts) for restarts in range(2)] == [(0.0, 1.0), (2.0, 3.0)]
