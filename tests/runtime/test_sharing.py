"""Network interfaces shared by transfers: by hand, and against a naive fluid model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.runtime import Carrier, Send, Steps, deliveries
from workbench.clusters import Cluster, Link, Node, Schedule
from workbench.runtime import Context, Message, Program, sharing, simulate

NODES = 3
PAIRS = [(one, two) for one in range(NODES) for two in range(NODES) if one != two]


def steps(least: int = 1) -> st.SearchStrategy[Steps]:
    """Small whole values at half seconds, some 0, the last not."""
    return st.tuples(st.lists(st.integers(0, 8), max_size=2), st.integers(least, 8)).map(
        lambda drawn: [
            (1.5 * place, value * 8.0) for place, value in enumerate([*drawn[0], drawn[1]])
        ]
    )


LINKS = st.fixed_dictionaries(
    {
        pair: st.builds(Carrier, steps(), st.sampled_from([0.0, 0.25]), st.sampled_from([0.0, 0.5]))
        for pair in PAIRS
    }
)
SENDS = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(PAIRS), st.integers(0, 12)), max_size=10
).map(
    lambda drawn: [
        Send(at / 4, *pair, float(size)) for at, pair, size in sorted(drawn, key=lambda one: one[0])
    ]
)
INTERFACES = st.dictionaries(st.integers(0, NODES - 1), steps())


def carry(
    sends: Sequence[Send],
    links: dict[tuple[int, int], Carrier],
    uplinks: dict[int, Steps],
    downlinks: dict[int, Steps],
) -> tuple[list[float], Any]:
    """Let programs send these messages; when each came, by its index in `sends`, and the run."""
    came: dict[int, float] = {}

    def program(node: int) -> Program:
        async def sender(context: Context) -> None:
            for number, send in enumerate(sends):
                if send.source == node:
                    await context.sleep(max(0.0, send.at_s - context.now_s()))
                    context.send(send.target, Message(node, str(number), number, send.size_bytes))

        async def both(context: Context) -> None:
            task = context.spawn(sender(context))
            for _ in [send for send in sends if send.target == node]:
                number = (await context.receive()).payload
                came[number] = context.now_s()
            await task

        return both

    def given_of(interfaces: dict[int, Steps], node: int) -> Schedule | None:
        return Schedule.of(interfaces[node]) if node in interfaces else None

    cluster = Cluster(
        [
            Node(
                f"n{node}",
                uplink_bps=given_of(uplinks, node),
                downlink_bps=given_of(downlinks, node),
            )
            for node in range(NODES)
        ],
        {
            pair: Link(Schedule.of(link.bandwidth), link.overhead_s, latency_s=link.latency_s)
            for pair, link in links.items()
        },
    )
    run = simulate(cluster, [program(node) for node in range(NODES)], trace=True)
    return [came[number] for number in range(len(sends))], run


def test_two_transfers_share_an_uplink_by_hand() -> None:
    link = Carrier([(0, 80.0)], 0.0, 0.0)
    sends = [Send(0, 0, 1, 10), Send(0, 0, 2, 30)]
    came, _ = carry(sends, dict.fromkeys(PAIRS, link), {0: [(0, 80.0)]}, {})
    assert came == [2.0, 4.0]  # five a second each, then ten for what is left


def test_a_slow_link_leaves_its_share_to_others_by_hand() -> None:
    links = dict.fromkeys(PAIRS, Carrier([(0, 80.0)], 0.0, 0.0))
    links[0, 1] = Carrier([(0, 16.0)], 0.0, 0.0)
    came, _ = carry([Send(0, 0, 1, 8), Send(0, 0, 2, 32)], links, {0: [(0, 80.0)]}, {})
    assert came == [4.0, 4.0]  # two and eight a second


def test_an_overhead_occupies_its_link_but_no_interface_by_hand() -> None:
    links = dict.fromkeys(PAIRS, Carrier([(0, 80.0)], 1.0, 0.0))
    sends = [Send(0, 0, 1, 10), Send(0.5, 0, 2, 10), Send(0.5, 0, 1, 10)]
    came, _ = carry(sends, links, {0: [(0, 80.0)]}, {})
    # alone for half a second, half each until 2.5 s, then 5 bytes alone until 3 s; the
    # third starts at 2.5 s and pays its overhead while the second ends
    assert came == [2.5, 3.0, 4.5]


def test_an_interface_that_changes_by_hand() -> None:
    links = dict.fromkeys(PAIRS, Carrier([(0, 80.0)], 0.0, 0.0))
    downlinks: dict[int, Steps] = {2: [(0, 40.0), (1, 0.0), (3, 80.0)]}
    came, _ = carry([Send(0, 0, 2, 10), Send(0, 1, 2, 5)], links, {}, downlinks)
    assert came == [4.0, 3.5]


@settings(max_examples=150, deadline=None)
@given(SENDS, LINKS, INTERFACES, INTERFACES)
def test_messages_arrive_when_the_naive_model_says(
    sends: list[Send],
    links: dict[tuple[int, int], Carrier],
    uplinks: dict[int, Steps],
    downlinks: dict[int, Steps],
) -> None:
    came, _ = carry(sends, links, uplinks, downlinks)
    expected = deliveries(sends, links, uplinks, downlinks)
    assert came == pytest.approx([float(time) for time in expected], rel=1e-9, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(SENDS, LINKS, INTERFACES, INTERFACES)
def test_invariants(
    sends: list[Send],
    links: dict[tuple[int, int], Carrier],
    uplinks: dict[int, Steps],
    downlinks: dict[int, Steps],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rates = _Rates(patch)
        came, run = carry(sends, links, uplinks, downlinks)
    # bytes conserved
    assert run.bytes == sum(send.size_bytes for send in sends)
    assert run.trace.frame["bytes"].sum() == run.bytes
    # one at a time and first in, first out
    for pair, link in links.items():
        numbers = [
            number for number, send in enumerate(sends) if (send.source, send.target) == pair
        ]
        assert [came[number] for number in numbers] == sorted(came[number] for number in numbers)
        spans = run.trace.frame.filter(node=f"n{pair[0]}", lane=f"to n{pair[1]}")
        assert spans["label"].to_list() == [str(number) for number in numbers]
        for before, after in pairwise(spans.iter_rows(named=True)):
            assert before["end_s"] <= after["start_s"]
        # causality, and the link's own bandwidth
        for number, span in zip(numbers, spans.iter_rows(named=True), strict=True):
            assert sends[number].at_s <= span["start_s"]
            assert span["end_s"] + link.latency_s == pytest.approx(came[number])
            room_bits = Schedule.of(link.bandwidth).served(
                min(span["start_s"] + link.overhead_s, span["end_s"]), span["end_s"]
            )
            assert sends[number].size_bytes * 8 <= room_bits + 1e-6
    # no interface above its capacity at any moment, none of its bytes from nowhere
    for used_bps, capacity_bps in rates.used:
        assert used_bps <= capacity_bps * (1 + 1e-9)
    # the makespan is never below what the busiest link or interface needs
    ways = [
        *((uplinks[node], [send for send in sends if send.source == node]) for node in uplinks),
        *((downlinks[node], [send for send in sends if send.target == node]) for node in downlinks),
        *(
            (link.bandwidth, [send for send in sends if (send.source, send.target) == pair])
            for pair, link in links.items()
        ),
    ]
    for capacity, through in ways:
        bits = sum(send.size_bytes for send in through) * 8
        first_s = min((send.at_s for send in through), default=0.0)
        assert run.end_s >= first_s + Schedule.of(capacity).seconds_for(bits, first_s) - 1e-9


class _Rates:
    """Notes, whenever rates are settled, what every interface carries beside what it can."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.used: list[tuple[float, float]] = []
        settle = sharing.Sharing._settle

        def noting(this: sharing.Sharing, event: Any) -> None:
            settle(this, event)
            self.used += self._now(this)

        patch.setattr(sharing.Sharing, "_settle", noting)

    @staticmethod
    def _now(this: sharing.Sharing) -> Iterator[tuple[float, float]]:
        interfaces = dict.fromkeys(one for flow in this.flows for one in flow.interfaces)
        for interface in interfaces:
            used_bps = sum(flow.rate_bps for flow in interface.flows)
            yield used_bps, interface.capacity.at(this.env.now)
