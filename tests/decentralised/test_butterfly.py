"""Butterfly all-reduce: everybody gets the exact mean, in the time that bytes over links take."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.decentralised.butterfly import assemble, butterfly
from workbench.runtime import Context, ProgramError, Run, simulate


def averaged(cluster: Cluster, own: Callable[[int], Any], **options: Any) -> Run:
    """Average what `own` returns for each node; a node's result is the mean and when it had it."""

    async def program(context: Context) -> tuple[Any, float]:
        mean = await butterfly(context, own(context.node), **options)
        return mean, context.now_s()

    return simulate(cluster, [program] * len(cluster))


def last_s(run: Run) -> float:
    last: float = max(at_s for _, at_s in run.results.values())
    return last


def mesh(nodes: int, bps: float, **node: Any) -> Cluster:
    return full_mesh([Node(f"n{index}", **node) for index in range(nodes)], Link(bps))


# --- What it computes ----------------------------------------------------------------------------


@given(
    nodes=st.integers(1, 6),
    length=st.integers(0, 40),
    chunks=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_every_node_ends_with_the_exact_mean(
    nodes: int, length: int, chunks: int, seed: int
) -> None:
    # Multiples of the count of nodes, so that no sum and no mean is rounded.
    whole = np.random.default_rng(seed).integers(-(2**20), 2**20, (nodes, length)) * nodes
    vectors = whole.astype(np.float64)
    run = averaged(mesh(nodes, 1e6), lambda node: vectors[node], chunks=chunks)
    for mean, _ in run.results.values():
        assert mean.tolist() == (whole.sum(axis=0) // nodes).tolist()


@given(seed=st.integers(0, 99))
def test_values_that_round_are_the_same_bits_everywhere(seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(5, 33)).astype(np.float32)
    run = averaged(mesh(5, 1e6), lambda node: vectors[node], chunks=2)
    means = [mean for mean, _ in run.results.values()]
    assert all(mean.tobytes() == means[0].tobytes() for mean in means)
    assert means[0].dtype == np.float32
    assert means[0] == pytest.approx(vectors.mean(axis=0), abs=1e-6)


def test_rounds_behind_each_other_do_not_mix_and_groups_are_apart() -> None:
    async def program(context: Context) -> list[list[float]]:
        group = (0, 1, 2) if context.node < 3 else (3, 4)
        found = []
        for turn in range(3):
            await context.sleep(0.1 * context.node * turn)
            own = np.full(4, 10.0 * turn + context.node)
            mean = await butterfly(context, own, group)
            assert mean is not None
            found.append(mean.tolist())
        return found

    run = simulate(mesh(5, 1e6), [program] * 5)
    for node, found in run.results.items():
        middle = 1.0 if node < 3 else 3.5
        assert found == [[10 * turn + middle] * 4 for turn in range(3)]


def test_a_group_begins_when_its_last_node_is_there() -> None:
    async def program(context: Context) -> float:
        await context.sleep(float(context.node))
        await assemble(context)
        return context.now_s()

    cluster = full_mesh(3, Link(1e6, latency_s=0.25))
    begun_s = simulate(cluster, [program] * 3).results
    assert begun_s == {0: 2.25, 1: 2.5, 2: 2.5}  # the last joins at 2 s, one way; and back


# --- How long it takes ---------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [2, 3, 8])
@pytest.mark.parametrize("chunks", [1, 5])
def test_equal_uplinks_carry_two_parts_less_two_shares(nodes: int, chunks: int) -> None:
    """2 (n - 1) / n of the bytes over a node's uplink: the closed form, and the least there is."""
    size_bytes, uplink_bps = 1e6, 8e6
    cluster = mesh(nodes, 1e12, uplink_bps=uplink_bps)
    run = averaged(cluster, lambda _: size_bytes, chunks=chunks)
    sent_bytes = 2 * (nodes - 1) / nodes * size_bytes
    assert last_s(run) == pytest.approx(sent_bytes * 8 / uplink_bps, rel=1e-9)
    assert run.bytes == pytest.approx(nodes * sent_bytes)
    assert all(mean is None for mean, _ in run.results.values())


def test_the_slowest_link_rules_and_latency_counts_twice() -> None:
    links: dict[tuple[int | str, int | str], Link] = {
        (a, b): Link(8e6, latency_s=0.1) for a, b in permutations(range(3), 2)
    }
    links[0, 1] = links[1, 0] = Link(1e6, latency_s=0.4)
    run = averaged(Cluster([Node(name) for name in "abc"], links), lambda _: 3e5)
    assert last_s(run) == pytest.approx(2 * (1e5 * 8 / 1e6 + 0.4), rel=1e-9)


def test_with_one_chunk_handling_and_transport_add_up_with_many_they_overlap() -> None:
    byte_s, size_bytes, nodes = 2e-6, 1e6, 4
    handling_s = 2 * (nodes - 1) / nodes * size_bytes * byte_s
    transport_s = 2 * size_bytes / nodes * 8 / 4e6

    def takes_s(chunks: int) -> float:
        return last_s(
            averaged(mesh(nodes, 4e6), lambda _: size_bytes, chunks=chunks, byte_s=byte_s)
        )

    assert takes_s(1) == pytest.approx(handling_s + transport_s, rel=1e-9)
    assert handling_s < takes_s(100) < 1.05 * handling_s  # what is left is the first chunk's way


def test_sizes_alone_take_as_long_as_true_vectors() -> None:
    vectors = np.arange(24.0).reshape(3, 8)
    cluster = mesh(3, 1e6, uplink_bps=1.5e6)
    true = averaged(cluster, lambda node: vectors[node, :6])
    sizes = averaged(cluster, lambda _: 48.0)
    assert last_s(true) == pytest.approx(last_s(sizes), rel=1e-12)


# --- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "options", "message"),
    [
        (1.0, {"chunks": 0}, "chunks is 0"),
        (1.0, {"byte_s": -1.0}, "byte_s is -1.0"),
        (1.0, {"group": (1,)}, "not in the group"),
        (np.ones((2, 2)), {}, "give one dimension"),
    ],
)
def test_refuses(own: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        averaged(mesh(2, 1e6), lambda _: own, **options)
