"""Scans give what a plain loop gives, by legal schedules, in the steps and work that they state."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import olpb_batches
from tests.oracles import olpb_scan as oracle
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.schedules import Schedule, batched, run, schedule

counts = st.integers(0, 40)
nodes = st.integers(1, 44)
algorithms = st.sampled_from(sorted(SCANS))


def letters(count: int) -> list[str]:
    """Words that tell every element and every order apart."""
    return [f"{number}." for number in range(count)]


@given(st.integers(1, 40), st.sampled_from(list(SCANS.values())))
def test_scans_of_anything_are_those_of_a_loop(count: int, scan: Callable[..., list[str]]) -> None:
    def combine(place: int, earlier: str | None, later: str | None) -> str:
        assert 0 <= place < count
        return (earlier or "") + (later or "")

    elements = letters(count)
    assert scan(elements, combine) == oracle.prefixes(elements, operator.add, "", exclusive=False)


@given(counts, st.none() | nodes, algorithms, st.booleans())
def test_scans_are_those_of_a_loop(
    count: int, nodes: int | None, algorithm: str, exclusive: bool
) -> None:
    elements = letters(count)
    planned = schedule(algorithm, count, nodes, exclusive=exclusive)
    found = run(planned, elements, operator.add, "")
    assert found.results == oracle.prefixes(elements, operator.add, "", exclusive=exclusive)
    assert (found.steps, found.work) == (planned.steps, planned.work)


@given(counts, nodes, algorithms, st.booleans())
def test_batches_are_those_of_a_loop(
    count: int, nodes: int, algorithm: str, exclusive: bool
) -> None:
    elements = letters(count)
    planned = batched(algorithm, count, nodes, exclusive=exclusive)
    found = run(planned, elements, operator.add, "")
    assert found.results == oracle.prefixes(elements, operator.add, "", exclusive=exclusive)


@given(st.integers(1, 40), nodes)
def test_batches_combine_what_an_event_loop_combines(count: int, nodes: int) -> None:
    planned = batched("hillis_steele", count, nodes)
    found = run(planned, letters(count), operator.add, "").results
    combined = olpb_batches.hillis_steele([1.0] * count, nodes, 1.0, 1.0).combined
    assert found == ["".join(f"{each}." for each in combined[k]) for k in range(count)]
    assert planned.homes[:count] == tuple(k % nodes for k in range(count))


@pytest.mark.parametrize("b", [2, 4, 8, 32])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_steps_of_batches_are_those_stated(b: int, m: int) -> None:
    planned = batched("hillis_steele", m * b, b)
    log_b = int(log2(b))
    assert (planned.steps, planned.work) == (m * log_b + m - 1, m * (b * log_b - b + 1) + m - 1)
    assert planned.made_after == tuple(max(0, at // b * (log_b + 1) - 1) for at in range(m * b))


@given(counts, nodes, algorithms, st.booleans(), st.sampled_from([schedule, batched]))
def test_schedules_are_legal(
    count: int, nodes: int, algorithm: str, exclusive: bool, way: Callable[..., Schedule]
) -> None:
    planned = way(algorithm, count, nodes, exclusive=exclusive)
    there = set[tuple[int, int]]()
    depth = dict.fromkeys(range(count), 0)
    for number, stage in enumerate([*planned.stages, ()]):
        made = [at for at in range(count) if planned.made_after[at] == number]
        there |= {(element, planned.homes[element]) for element in made}
        for message in planned.messages:
            if message.stage == number < planned.steps:
                assert (message.value, message.source) in there
                there.add((message.value, message.target))
        busy = [move.node for move in stage]
        assert len(set(busy)) == len(busy)
        assert set(busy) <= set(range(min(nodes, count)))
        for move in stage:
            assert {(move.left, move.node), (move.right, move.node)} <= there
            depth[move.result] = 1 + max(depth[move.left], depth[move.right])
        there |= {(move.result, move.node) for move in stage}
    arrived = {(one.value, one.target) for one in planned.messages if one.stage == planned.steps}
    for element, value in enumerate(planned.prefixes):
        if value is not None:
            assert (value, planned.homes[element]) in there | arrived
    assert max(depth.values(), default=0) <= planned.steps
    sizes = [planned.homes[:count].count(node) for node in range(min(nodes, count))]
    assert not sizes or max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("b", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_steps_and_work_are_those_stated(b: int, m: int) -> None:
    n, log_b = m * b, int(log2(b))
    around, applied = 2 * (m - 1), (n - b) + (b - 1) * (m - 1)
    steele, tree = schedule("hillis_steele", n, b), schedule("blelloch", n, b)
    assert (steele.steps, steele.work) == (around + log_b, applied + b * log_b - b + 1)
    assert (tree.steps, tree.work) == (around + 2 * log_b - 1, applied + 2 * (b - 1) - log_b)


@pytest.mark.parametrize("n", [4, 8, 16, 64, 256])
def test_beside_the_count_of_the_paper(n: int) -> None:
    steele = schedule("hillis_steele", n)
    assert steele.steps == log2(n)  # the paper: n / b + log b, one more
    assert n * log2(n) - n < steele.work <= n * log2(n)
    tree = schedule("blelloch", n, exclusive=True)
    assert (tree.steps, tree.work) == (2 * log2(n) - 2, 2 * (n - 1 - log2(n)))


@given(st.integers(2, 40))
def test_steele_takes_as_few_steps_as_any(count: int) -> None:
    assert schedule("hillis_steele", count).steps == ceil(log2(count))


def test_the_printed_algorithm_leaves_prefixes_out() -> None:
    found = oracle.hillis_steele_as_printed("abcd")
    assert found == ["a", "ab", "bc", "abcd"]


def test_prices_of_moves_and_messages() -> None:
    planned = schedule("hillis_steele", 4)
    found = run(
        planned, letters(4), operator.add, "", flops=lambda a, b: len(a + b), size_bytes=len
    )
    # a+b, b+c, c+d side by side, then a+bc, ab+cd.
    assert (found.flops, found.critical_flops) == (3 * 4 + 6 + 8, 4 + 8)
    # To the right neighbour three letters, then one letter and one pair.
    assert found.bytes_sent == 3 * 2 + 2 + 4
