"""Links carry messages in the time of the model, in order, with all that they hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.runtime.programs import (
    BPS,
    LINK,
    SIZE,
    UNIT_S,
    lets_start,
    pair,
    posts,
    receives,
    sends,
    units,
    when_told,
)
from tests.runtime.runtimes import Runtime
from workbench.clusters import Cluster, Link, Node, SharedCapacity, full_mesh
from workbench.runtime import Context, Message, Transfer


def test_a_transfer_takes_the_overhead_and_its_bytes(runtime: Runtime) -> None:
    run = runtime(pair(replace(LINK, overhead_s=UNIT_S)), [sends(0.5), receives(1)])
    assert runtime.agrees(run.results[1], units(1.5))
    assert (run.ended, run.results[0]) == ("done", None)
    assert run.end_s >= run.results[1][0]


def test_messages_of_a_link_follow_each_other(runtime: Runtime) -> None:
    run = runtime(pair(), [sends(0.5, 0.0, 1.0, 0.25), receives(4)])
    assert runtime.agrees(run.results[1], units(0.5, 0.5, 1.5, 1.75))
    assert run.links[0][:5] == ("one", "two", 4, 1.75 * SIZE, 0)
    assert runtime.agrees(run.links[0].busy_s, 1.75 * UNIT_S)


def test_tensors_pay_what_the_link_makes_of_their_sizes(runtime: Runtime) -> None:
    link = replace(
        LINK, overhead_s=UNIT_S, tensor_s=UNIT_S / 4, split_bytes=int(SIZE / 2), whole_share=0.5
    )

    message = Message(0, "x", None, SIZE, tensor_bytes=(SIZE / 4, SIZE * 3 / 4))
    run = runtime(pair(link), [posts(message), receives(1)])
    assert runtime.agrees(run.results[1], units(1 + 0.5 + 0.5 + 0.75))
    assert run.bytes == SIZE


def test_latency_delays_a_message_and_not_the_next(runtime: Runtime) -> None:
    run = runtime(pair(replace(LINK, latency_s=UNIT_S)), [sends(1, 1), receives(2)])
    assert runtime.agrees(run.results[1], units(2, 3))
    assert runtime.agrees(run.end_s, 3 * UNIT_S)


def test_a_control_message_waits_its_turn_but_pays_no_overhead(runtime: Runtime) -> None:
    async def hears(context: Context) -> list[Any]:
        return [((await context.receive()).topic, context.now_s()) for _ in range(2)]

    asks = posts(Message(0, "data", None, SIZE), Message(0, "request", control=True))
    run = runtime(pair(replace(LINK, overhead_s=UNIT_S)), [asks, hears])
    assert [topic for topic, _ in run.results[1]] == ["data", "request"]
    assert runtime.agrees([at_s for _, at_s in run.results[1]], units(2, 2))


def test_a_bandwidth_that_changes_is_integrated(runtime: Runtime) -> None:
    wave = [(0, BPS), (UNIT_S, 0), (2 * UNIT_S, BPS / 2)]
    run = runtime(pair(Link(wave)), [sends(0.5, 1), receives(2)])
    assert runtime.agrees(run.results[1], units(0.5, 3))


async def sends_to_two(context: Context) -> None:
    context.send(1, Message(0, "a", None, SIZE))
    context.send(2, Message(0, "b", None, SIZE / 2))


def test_an_uplink_is_shared_fairly(runtime: Runtime) -> None:
    nodes = [Node("one", uplink_bps=BPS), Node("two"), Node("three")]
    cluster = Cluster(nodes, {(0, 1): LINK, (0, 2): LINK})
    run = runtime(cluster, [sends_to_two, receives(1), receives(1)])
    assert runtime.agrees(run.results[1] + run.results[2], units(1.5, 1))


def shared_downlink(first: Link = LINK, downlink_bps: Any = BPS) -> Cluster:
    nodes = [Node("one"), Node("two"), Node("three", downlink_bps=downlink_bps)]
    return Cluster(nodes, {(0, 2): first, (1, 2): LINK, (2, 1): LINK})


def test_a_downlink_is_shared_fairly_by_links_of_several_nodes(runtime: Runtime) -> None:
    second = when_told(sends(0.5, to=2))
    run = runtime(shared_downlink(), [sends(0, 2, to=2), second, lets_start(1, 2)])
    assert runtime.agrees(run.results[2], units(1, 2.5))
    assert [use.messages for use in run.links] == [2, 1, 1]


def test_links_of_several_nodes_share_a_capacity_fairly(runtime: Runtime) -> None:
    channel = Link(2 * BPS, shared=(SharedCapacity(BPS),))
    nodes = [Node("one"), Node("two"), Node("three")]
    cluster = Cluster(nodes, {(0, 2): channel, (1, 2): channel, (2, 1): LINK})
    second = when_told(sends(0.5, to=2))
    run = runtime(cluster, [sends(0, 2, to=2), second, lets_start(1, 2)])
    assert runtime.agrees(run.results[2], units(1, 2.5))


def test_a_slow_link_leaves_others_what_it_cannot_take_of_a_downlink(runtime: Runtime) -> None:
    cluster = shared_downlink(Link(BPS / 4))
    second = when_told(sends(1.5, to=2))
    run = runtime(cluster, [sends(0, 1, to=2), second, lets_start(1, 2)])
    assert runtime.agrees(run.results[2], units(2, 4))


def test_links_that_share_an_uplink_and_a_downlink(runtime: Runtime) -> None:
    """All three have half a link, until the one that shares both is through."""
    nodes = [Node("one", uplink_bps=BPS), Node("two"), Node("three", downlink_bps=BPS)]
    cluster = Cluster(
        [*nodes, Node("four")], {(0, 1): LINK, (0, 2): LINK, (2, 0): LINK, (3, 2): LINK}
    )
    programs = [when_told(sends_to_two), receives(1), lets_start(0, 2), sends(0, 4, to=2)]
    run = runtime(cluster, programs)
    assert runtime.agrees(run.results[1] + run.results[2], units(1.5, 1, 4.5))


def test_a_downlink_that_changes_is_shared_as_it_is(runtime: Runtime) -> None:
    cluster = shared_downlink(downlink_bps=[(0, BPS), (2 * UNIT_S, BPS / 2)])
    second = when_told(sends(1.25, to=2))
    run = runtime(cluster, [sends(0, 2, to=2), second, lets_start(1, 2)])
    assert runtime.agrees(run.results[2], units(3, 4.5))


def test_a_downlink_of_one_link_is_kept(runtime: Runtime) -> None:
    run = runtime(pair(two=Node("two", downlink_bps=BPS / 2)), [sends(1), receives(1)])
    assert runtime.agrees(run.results[1], units(2))


def test_a_message_to_oneself_is_there_at_once(runtime: Runtime) -> None:
    async def alone(context: Context) -> Any:
        context.send(0, Message(0, "x", "hello", 1e9))
        return (await context.receive("x")).payload, context.now_s()

    said, at_s = runtime(Cluster([Node("a")]), [alone]).results[0]
    assert said == "hello"
    assert runtime.agrees(at_s, 0)


def test_a_payload_arrives_as_it_was(runtime: Runtime) -> None:
    whole = torch.arange(12.0)
    payload = {
        "array": np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::2],
        "none": np.zeros((0, 3)),
        "fortran": np.asfortranarray(np.eye(3)),
        "view": whole[3:7],
        "half": torch.ones(3, dtype=torch.bfloat16),
        "transposed": whole.view(3, 4).t(),
        "scalar": torch.tensor(2.5),
        "text": ("a", None, 1 << 70),
    }

    async def receive(context: Context) -> Any:
        return (await context.receive()).payload

    found = runtime(pair(), [posts(Message(0, "x", payload, 10.0)), receive]).results[1]
    for name, value in payload.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype
        elif isinstance(value, torch.Tensor):
            torch.testing.assert_close(found[name], value, rtol=0, atol=0)
        else:
            assert found[name] == value


@pytest.mark.parametrize("size", [0.0, 0.5])
def test_a_payload_may_be_larger_than_the_size_that_is_charged(
    runtime: Runtime, size: float
) -> None:
    async def receive(context: Context) -> Any:
        payload = (await context.receive()).payload
        return context.now_s(), float(payload.sum())

    message = Message(0, "x", np.arange(100_000.0), size * SIZE)
    at_s, total = runtime(pair(), [posts(message), receive]).results[1]
    assert runtime.agrees(at_s, size * UNIT_S)
    assert total == sum(range(100_000))


def test_watch_collects_a_nodes_transfers(runtime: Runtime) -> None:
    async def watching(context: Context) -> list[Transfer]:
        transfers = context.watch()
        await context.receive("1")
        return transfers

    run = runtime(pair(replace(LINK, overhead_s=UNIT_S / 2)), [sends(1, 2), watching])
    transfers = run.results[1]
    assert [transfer[:4] for transfer in transfers] == [(0, 1, "0", SIZE), (0, 1, "1", 2 * SIZE)]
    assert runtime.agrees([each.end_s for each in transfers], units(1.5, 4))
    assert transfers[0].end_s <= transfers[1].end_s


def test_watch_sees_what_a_node_sends(runtime: Runtime) -> None:
    async def sending(context: Context) -> list[Transfer]:
        transfers = context.watch()
        await sends(1, 1)(context)
        await context.receive("thanks")
        while len(transfers) < 3:  # what was sent may be noted after the answer to it
            await context.sleep(UNIT_S)
        return transfers

    async def answers(context: Context) -> None:
        await context.receive("1")
        context.send(0, Message(1, "thanks", control=True))

    transfers = runtime(pair(), [sending, answers]).results[0]
    assert sorted(transfer.topic for transfer in transfers) == ["0", "1", "thanks"]


def test_the_trace_has_a_row_for_each_transfer_and_each_work(runtime: Runtime) -> None:
    async def works(context: Context) -> None:
        await context.compute(lambda: None, cost_s=UNIT_S, lane="step", label="first")
        await sends(1)(context)

    run = runtime(pair(), [works, receives(1)], trace=True)
    assert run.trace is not None
    rows = run.trace.frame.rows()
    assert [row[:3] for row in rows] == [("one", "step", "first"), ("one", "to two", "0")]
    assert [row[5:] for row in rows] == [(0, "work"), (SIZE, "transfer")]
    assert runtime.agrees([row[4] for row in rows], units(1, 2))
    assert all(row[4] - row[3] >= UNIT_S * (1 - 1e-9) for row in rows)


def test_all_to_all(runtime: Runtime) -> None:
    async def node(context: Context) -> list[int]:
        for peer in context.peers:
            context.send(peer, Message(context.node, "x", context.node * 10 + peer, SIZE / 10))
        return [(await context.receive(sender=peer)).payload for peer in context.peers]

    run = runtime(full_mesh(4, LINK), [node] * 4)
    assert run.results == {
        node: [peer * 10 + node for peer in range(4) if peer != node] for node in range(4)
    }
    assert [use.messages for use in run.links] == [1] * 12
