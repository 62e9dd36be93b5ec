"""Network interfaces shared by transfers: by hand, and against a naive fluid model."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.runtime import (
    Carrier,
    Send,
    Steps,
    deliveries,
    progressive_filling,
    value_at,
)
from workbench.clusters import Cluster, Link, Node, Schedule, star
from workbench.runtime import Context, Message, Program, simulate
from workbench.runtime.flows import SCALE, Capacity, Flow
from workbench.runtime.kernel import Kernel
from workbench.runtime.sharing import FairSharing

NODES = 4
PAIRS = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (3, 0), (3, 1)]  # to two servers, too


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

    cluster = Cluster(
        [
            Node(f"n{node}", uplink_bps=uplinks.get(node), downlink_bps=downlinks.get(node))
            for node in range(NODES)
        ],
        {
            pair: Link(link.bandwidth, link.overhead_s, latency_s=link.latency_s)
            for pair, link in links.items()
        },
    )
    run = simulate(cluster, [program(node) for node in range(NODES)], trace=True)
    return [came[number] for number in range(len(sends))], run


def test_an_overhead_occupies_its_link_but_no_interface_by_hand() -> None:
    links = dict.fromkeys(PAIRS, Carrier([(0, 80.0)], 1.0, 0.0))
    sends = [Send(0, 0, 1, 10), Send(0.5, 0, 2, 10), Send(0.5, 0, 1, 10)]
    came, _ = carry(sends, links, {0: [(0, 80.0)]}, {})
    # alone for half a second, half each until 2.5 s, then 5 bytes alone until 3 s; the
    # third starts at 2.5 s and pays its overhead while the second ends
    assert came == [2.5, 3.0, 4.5]


def test_an_interface_with_room_limits_the_last_of_its_flows_by_hand() -> None:
    workers = range(20)
    to_second = {0: 9.0, 1: 33.0}
    came: dict[int, float] = {}

    async def worker(context: Context) -> None:
        sizes = 1.0, to_second.get(context.node, 1.0)
        for server, size_bytes in enumerate(sizes, len(workers)):
            context.send(server, Message(context.node, "push", None, size_bytes))

    async def server(context: Context) -> None:
        for _ in workers:
            push = await context.receive()
            came[push.sender] = context.now_s()

    nodes = [Node(f"w{at}", uplink_bps=None if at else 32.0) for at in workers]
    servers = [Node(f"s{at}", downlink_bps=160.0) for at in range(2)]
    simulate(star(nodes, servers, Link(1e6)), [*[worker] * len(nodes), *[server] * 2])
    # a byte a second each; then the uplink's four for one, and 16 for the other until 3 s
    assert came == {at: 3.0 if at == 0 else 1.0 for at in workers} | {1: 1 + 32 / 16}


@pytest.mark.parametrize("limited", [True, False])
def test_what_ends_at_the_brink_of_an_outage_ends_there(limited: bool) -> None:
    """From 0.1 to 0.3 s is less than 0.2 s in binary numbers, by a rounding."""
    outage = [(0, 80.0), (0.3, 0.0), (10, 80.0)]
    links = dict.fromkeys(PAIRS, Carrier([(0, 80.0)] if limited else outage, 0.0, 0.0))
    uplinks: dict[int, Steps] = {0: outage} if limited else {}
    sends = [Send(0.1, 0, 1, 1.0), Send(0.1, 0, 2, 1.0)]
    assert carry(sends[:1], links, {0: outage}, {})[0] == [pytest.approx(0.2)]
    assert carry([Send(0.1, 0, 1, 2.0)], links, uplinks, {})[0] == [0.3]
    assert carry([Send(0.1, 0, 1, 2.0)], links, {0: outage}, {2: outage})[0] == [0.3]
    if limited:
        assert carry(sends, links, uplinks, {})[0] == [0.3, 0.3]
        assert carry(sends, links, uplinks, {1: outage, 2: outage})[0] == [0.3, 0.3]


@settings(deadline=None)
@given(sends=SENDS, links=LINKS, uplinks=INTERFACES, downlinks=INTERFACES)
def test_messages_arrive_when_the_naive_model_says(
    sends: list[Send],
    links: dict[tuple[int, int], Carrier],
    uplinks: dict[int, Steps],
    downlinks: dict[int, Steps],
) -> None:
    came, _ = carry(sends, links, uplinks, downlinks)
    expected = deliveries(sends, links, uplinks, downlinks)
    assert came == pytest.approx([float(time) for time in expected], rel=1e-12, abs=1e-12)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_flows_across_any_number_of_capacities_share_as_progressive_filling_says(seed: int) -> None:
    """They come and go at the same and at other times, and capacities change."""
    rng = np.random.default_rng(seed)
    values = [[8.0, 16.0, 24.0], [10.0], rng.uniform(1, 100, 5).tolist()][rng.integers(3)]
    totals: list[Steps] = [
        [(0, rng.choice(values)), (3, rng.choice([0, *values])), (5, rng.choice(values))]
        for _ in range(rng.integers(1, 8))
    ]
    capacities = [Capacity(Schedule.of(steps)) for steps in totals]
    env, left = Kernel(), dict[Flow, Fraction]()
    network = FairSharing(env)

    def end(flow: Flow) -> None:
        assert float(left.pop(flow)) == pytest.approx(0, abs=1e-9)

    for _ in range(40):
        for _ in range(rng.integers(0, 4)):
            count = rng.integers(1, min(len(capacities), 5), endpoint=True)
            crossed = tuple(capacities[at] for at in rng.permutation(len(capacities))[:count])
            flow = Flow(crossed, bits := float(rng.choice([1, 10, 37.5, 100])), lambda: None)
            flow.done = partial(end, flow)
            network.join(flow)
            left[flow] = Fraction(bits)
        if left and rng.random() < 0.3:
            gone = list(left)[rng.integers(len(left))]
            network.leave(gone)
            assert gone.left / SCALE == pytest.approx(float(left.pop(gone)), rel=1e-12, abs=1e-9)
        while env.queue and env.queue[0][0] <= env.now:
            env.step()
        rates = progressive_filling(
            [1e9] * len(left),
            [[capacities.index(one) for one in flow.capacities] for flow in left],
            [float(value_at(steps, Fraction(env.now))) for steps in totals],
        )
        assert [flow.rate_bps for flow in left] == pytest.approx(
            [float(rate) for rate in rates], rel=1e-12
        )
        later_s = env.now + float(rng.choice([0, 0.5, 1]))
        later_s = min(later_s, env.queue[0][0] if env.queue else later_s)
        for flow, rate in zip(left, rates, strict=True):
            left[flow] -= rate * (Fraction(later_s) - Fraction(env.now))
        env.advance(later_s)
