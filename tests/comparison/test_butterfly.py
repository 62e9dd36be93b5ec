"""Butterfly all-reduce takes the time that its bytes take over the links."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.comparison.butterfly import assemble, butterfly
from workbench.runtime import Context, Run, simulate


def averaged(cluster: Cluster, size_bytes: float, **options: Any) -> Run:
    """Average once; a node's result is when it was done."""

    async def program(context: Context) -> float:
        await butterfly(context, size_bytes, **options)
        return context.now_s()

    return simulate(cluster, [program] * len(cluster))


def mesh(nodes: int, bps: float, **node: Any) -> Cluster:
    return full_mesh([Node(f"n{index}", **node) for index in range(nodes)], Link(bps))


def test_a_group_begins_when_its_last_node_is_there() -> None:
    async def program(context: Context) -> float:
        await context.sleep(float(context.node))
        await assemble(context)
        return context.now_s()

    cluster = full_mesh(3, Link(1e6, latency_s=0.25))
    begun_s = simulate(cluster, [program] * 3).results
    assert begun_s == {0: 2.25, 1: 2.5, 2: 2.5}  # the last joins at 2 s, one way; and back


def test_rounds_behind_each_other_do_not_mix() -> None:
    async def program(context: Context) -> list[float]:
        ends_s = []
        for turn in range(3):
            await context.sleep(0.1 * context.node * turn)
            await butterfly(context, 1e3)
            ends_s.append(context.now_s())
        return ends_s

    for ends_s in zip(*simulate(mesh(5, 1e6), [program] * 5).results.values(), strict=True):
        assert max(ends_s) - min(ends_s) < 0.1  # nobody is done before the last has begun


@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_equal_uplinks_carry_two_parts_less_two_shares(nodes: int) -> None:
    """2 (n - 1) / n of the bytes over a node's uplink: the closed form, and the least there is."""
    size_bytes, uplink_bps = 1e6, 8e6
    run = averaged(mesh(nodes, 1e12, uplink_bps=uplink_bps), size_bytes)
    sent_bytes = 2 * (nodes - 1) / nodes * size_bytes
    assert max(run.results.values()) == pytest.approx(sent_bytes * 8 / uplink_bps, rel=1e-9)
    assert run.bytes == pytest.approx(nodes * sent_bytes)


def test_the_slowest_link_rules_and_latency_counts_twice() -> None:
    links: dict[tuple[int | str, int | str], Link] = {
        (a, b): Link(8e6, latency_s=0.1) for a, b in permutations(range(3), 2)
    }
    links[0, 1] = links[1, 0] = Link(1e6, latency_s=0.4)
    run = averaged(Cluster([Node(name) for name in "abc"], links), 3e5)
    assert max(run.results.values()) == pytest.approx(2 * (1e5 * 8 / 1e6 + 0.4), rel=1e-9)


def test_handling_and_transport_add_up() -> None:
    byte_s, size_bytes, nodes = 2e-6, 1e6, 4
    handling_s = 2 * (nodes - 1) / nodes * size_bytes * byte_s
    transport_s = 2 * size_bytes / nodes * 8 / 4e6
    run = averaged(mesh(nodes, 4e6), size_bytes, byte_s=byte_s)
    assert max(run.results.values()) == pytest.approx(handling_s + transport_s, rel=1e-9)
