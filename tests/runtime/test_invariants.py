"""What holds in every run, whatever fails: drawn clusters, speeds, cores, links and faults."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.runtime import Slow, Steps, computed, most_at_once
from workbench.clusters import Cluster, Link, Node
from workbench.runtime import (
    Context,
    Fault,
    LinkDown,
    Lossy,
    Message,
    Run,
    SlowDown,
    draw_faults,
)
from workbench.runtime.messages import Mailbox
from workbench.runtime.simulation import Simulation

SPEEDS = st.sampled_from(
    [[(0.0, 1.0)], [(0.0, 0.5)], [(0.0, 2.0), (1.5, 0.0), (3.0, 0.25), (6.0, 1.0)]]
)
CAPACITIES = st.sampled_from([None, 16.0, [(0, 24.0), (2, 0.0), (4, 80.0)]])
LINKS = st.builds(
    Link,
    st.sampled_from([40.0, [(0, 40.0), (3, 0.0), (5, 8.0)]]),
    overhead_s=st.sampled_from([0.0, 0.3]),
    latency_s=st.sampled_from([0.0, 0.7]),
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = [
        Node(
            f"n{index}",
            cores=draw(st.integers(1, 2)),
            speed=draw(SPEEDS),
            uplink_bps=draw(CAPACITIES),
            downlink_bps=draw(CAPACITIES),
        )
        for index in range(draw(st.integers(2, 4)))
    ]
    ends = range(len(nodes))
    return Cluster(nodes, {(one, two): draw(LINKS) for one in ends for two in ends if one != two})


@st.composite
def runs(draw: st.DrawFn) -> tuple[Cluster, tuple[Fault, ...], int]:
    """A cluster, what fails in it, and a seed."""
    cluster, seed = draw(clusters()), draw(st.integers(0, 2**16))
    often = st.sampled_from([None, 5.0])
    drawn = draw_faults(
        seed,
        cluster,
        until_s=20,
        crash_every_s=draw(often),
        down_s=2,
        slow_every_s=draw(often),
        slow_s=2,
        link_down_every_s=draw(often),
        link_down_s=1,
    )
    overlapping: tuple[Fault, ...] = (
        SlowDown(0, 1, 4, 2),
        SlowDown("n0", 2, 6, 4),
        Lossy(0, 1, 0.5, 1, 9),
        Lossy(0, 1, 0.3),
        LinkDown(0, 1, 3, 6),
        LinkDown("n0", "n1", 4, 5),
    )
    return cluster, (*drawn, *(overlapping if draw(st.booleans()) else ())), seed


class Counted:
    """How many messages programs sent."""

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self, context: Context) -> float:
        """Compute twice at once, listen, and send, all at random."""
        random = context.random

        async def listen() -> None:
            while True:
                topic = str(random.integers(2)) if random.random() < 0.5 else None
                try:
                    await context.receive(topic, timeout_s=float(random.uniform(0, 2)))
                except TimeoutError:
                    continue

        async def compute() -> None:
            for _ in range(4):
                cost_s = float(random.choice([0, 0.5, 1]))
                await context.compute(lambda: None, cost_s=cost_s, label=f"{cost_s}")

        context.spawn(listen())
        tasks = [context.spawn(compute()) for _ in range(2)]
        for _ in range(5):
            await context.sleep(float(random.choice([0, 0.5, 1, 2])))
            size_bytes = float(random.choice([0, 1, 5, 30]))
            topic = str(random.integers(2))
            context.send(
                int(random.choice(context.peers)), Message(context.node, topic, None, size_bytes)
            )
            self.sent += 1
        await tasks[0]
        return context.now_s()


def made(cluster: Cluster, faults: tuple[Fault, ...], seed: int) -> tuple[Simulation, Counted]:
    counted = Counted()
    programs = [counted] * len(cluster)
    return Simulation(cluster, programs, faults=faults, seed=seed, trace=True), counted


def state(run: Run) -> Any:
    assert run.trace is not None
    return run.ended, run.end_s, run.results, run.events, run.links, run.trace.frame.rows()


@settings(deadline=None)
@given(runs(), st.lists(st.floats(0, 20), max_size=3))
def test_invariants(drawn: tuple[Cluster, tuple[Fault, ...], int], times_s: list[float]) -> None:
    cluster, faults, _ = drawn
    delivered: list[Message] = []
    deliver = Mailbox.deliver

    def counting(mailbox: Mailbox, message: Message, *, first: bool = False) -> None:
        if not first:  # not one that goes on from who was cut off
            delivered.append(message)
        deliver(mailbox, message, first=first)

    simulation, counted = made(*drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mailbox, "deliver", counting)
        run = simulation.run()
    assert run.ended == "done"

    # every message is delivered or lost, once
    assert counted.sent == len(delivered) + sum(use.lost for use in run.links)
    for use in run.links:
        assert 0 <= use.busy_s <= run.end_s + 1e-9

    # a node never computes more at once than it has cores, and each step for what it costs
    assert run.trace is not None
    for index, node in enumerate(cluster.nodes):
        spans = run.trace.frame.filter(node=node.name, lane="compute")
        times = [(start_s, end_s) for start_s, end_s in spans["start_s", "end_s"].iter_rows()]
        assert most_at_once([span for span in times if span[0] < span[1]]) <= node.cores
        slow = [
            Slow(fault.from_s, fault.to_s, fault.factor)
            for fault in faults
            if isinstance(fault, SlowDown) and cluster.index(fault.node) == index
        ]
        steps: Steps = list(
            zip(node.speed_over_time.starts_s, node.speed_over_time.values, strict=True)
        )
        for (start_s, end_s), label in zip(times, spans["label"], strict=True):
            assert computed(steps, slow, start_s, end_s) == pytest.approx(float(label), abs=1e-9)

    # a run in stages is the same run
    staged, _ = made(*drawn)
    for until_s in sorted(times_s):
        if staged.run(until_s).ended == "done":
            break
    assert state(staged.run()) == state(run)
