"""Collective operations take the time of their bytes, and give the same bits in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.runtime import Context, ProgramError, Run, simulate
from workbench.sharding.collectives import (
    all_gather,
    all_reduce,
    assemble,
    reduce_scatter,
    share,
)


def averaged(cluster: Cluster, size_bytes: float, **options: Any) -> Run:
    """Average once; a node's result is when it was done."""

    async def program(context: Context) -> float:
        await all_reduce(context, range(len(cluster)), None, size_bytes, **options)
        return context.now_s()

    return simulate(cluster, [program] * len(cluster))


def mesh(nodes: int, bps: float, **node: Any) -> Cluster:
    return full_mesh([Node(f"n{index}", **node) for index in range(nodes)], Link(bps))


def test_a_group_begins_when_its_last_node_is_there() -> None:
    async def program(context: Context) -> float:
        await context.sleep(float(context.node))
        await assemble(context, range(3))
        return context.now_s()

    cluster = full_mesh(3, Link(1e6, latency_s=0.25))
    begun_s = simulate(cluster, [program] * 3).results
    assert begun_s == {0: 2.25, 1: 2.5, 2: 2.5}  # the last joins at 2 s, one way; and back


def test_rounds_behind_each_other_do_not_mix() -> None:
    async def program(context: Context) -> list[float]:
        ends_s = []
        for turn in range(3):
            await context.sleep(0.1 * context.node * turn)
            await all_reduce(context, range(5), None, 1e3)
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


def naive(vectors: Any, weights: Sequence[float]) -> list[float]:
    """Weighted mean, or the sum without weights, an element at a time in single precision."""
    elements = []
    largest = np.float32(max(weights, default=1))
    for values in zip(*vectors, strict=True):
        total = np.float32(0)
        for at, value in enumerate(values):
            total += np.float32(value) * np.float32(weights[at] / largest if weights else 1)
        elements.append(float(total / np.float32(sum(weights) / largest) if weights else total))
    return elements


@given(
    size=st.integers(0, 9),
    group=st.lists(st.integers(0, 4), min_size=1, unique=True),
    delays=st.lists(st.sampled_from([0.0, 0.1, 1.0]), min_size=5, max_size=5),
    kind=st.sampled_from([np.asarray, torch.from_numpy]),
    weights=st.none() | st.lists(st.integers(1, 4), min_size=5, max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_sums_have_the_bits_of_the_groups_order_whatever_arrives_first(
    size: int,
    group: list[int],
    delays: list[float],
    kind: Callable[[Any], Any],
    weights: list[int] | None,
) -> None:
    """Groups are of any nodes, in any order; a vector may have fewer elements than nodes."""
    vectors = np.random.default_rng(size).standard_normal((5, size)).astype(np.float32)
    vectors, factors = vectors[: len(group)], (weights or [])[: len(group)]

    async def program(context: Context) -> Any:
        if context.node not in group:
            return None
        await context.sleep(delays[context.node])
        place = group.index(context.node)
        value = kind(vectors[place].copy())
        part = await reduce_scatter(context, group, value, 4.0 * size, weights=factors)
        whole = value * 0
        whole[share(size, len(group), place)] = part
        await all_gather(context, group, whole, 4.0 * size)
        await all_reduce(context, group, value, 4.0 * size, weights=factors)
        return [float(each) for each in value], [float(each) for each in whole]

    results = simulate(mesh(5, 1e3), [program] * 5).results
    expected = naive(vectors, factors)
    for node in group:
        assert results[node] == (expected, expected)


def test_mean_of_nodes_without_samples_is_their_sum() -> None:
    async def program(context: Context) -> list[float]:
        value = np.zeros(3)
        await all_reduce(context, [0, 1], value, 24.0, weights=[0, 0])
        return value.tolist()

    assert simulate(mesh(2, 1e3), [program] * 2).results == {0: [0.0] * 3, 1: [0.0] * 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1, 2, 3]}, "for each of 2"),
        ({"weights": [1, -1]}, "at least 0"),
        ({"weights": [1, float("nan")]}, "at least 0"),
        ({"value": [1.0, 2.0]}, "flat vector"),
        ({"value": np.ones((2, 2))}, "flat vector"),
    ],
)
def test_wrong_vectors_and_weights_are_refused(options: dict[str, Any], message: str) -> None:
    async def program(context: Context) -> None:
        await all_reduce(context, [0, 1], **{"value": np.ones(2), "size_bytes": 8.0, **options})

    with pytest.raises(ProgramError, match=message):
        simulate(mesh(2, 1e3), [program] * 2)
