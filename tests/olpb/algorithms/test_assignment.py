"""The scheduler deals as it states, only what fits, and again to those who are left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.olpb.strategies import pools, subtasks
from tests.oracles import olpb_nodes as oracle
from workbench.olpb.algorithms.assignment import AssignmentError, assign, assign_batches
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.schedules import deal, schedule
from workbench.olpb.costs.subtasks import Node, Pool, Subtask


def some(count: int, memory_bytes: int = 1) -> tuple[Subtask, ...]:
    return tuple(Subtask((f"group {at}",), 1.0, 4, memory_bytes) for at in range(count))


@given(subtasks(40), pools(equal=True), st.sampled_from(sorted(SCANS)), st.booleans())
def test_equal_nodes_get_what_a_schedule_deals(
    tasks: tuple[Subtask, ...], pool: Pool, scan: str, exclusive: bool
) -> None:
    runs = assign(tasks, pool)
    assert runs == deal(len(tasks), len(pool.nodes))
    given_runs = schedule(scan, len(tasks), runs, exclusive=exclusive)
    assert given_runs == schedule(scan, len(tasks), len(pool.nodes), exclusive=exclusive)


def test_runs_are_in_proportion_to_speed() -> None:
    pool = Pool((Node(1.0), Node(4.0), Node(2.0), Node(1.0)))
    assert list(map(len, assign(some(24), pool))) == [3, 12, 6, 3]
    assert list(map(len, assign(some(1), pool))) == [0, 1, 0, 0]


@given(subtasks(7), pools(4), st.data())
def test_runs_are_the_best_that_fit(
    tasks: tuple[Subtask, ...], pool: Pool, data: st.DataObject
) -> None:
    room = st.none() | st.integers(0, 120)
    nodes = tuple(replace(node, memory_bytes=data.draw(room)) for node in pool.nodes)
    pool = replace(pool, nodes=nodes)
    best = oracle.best_runs(tasks, pool)
    if best is None:
        with pytest.raises(AssignmentError, match=r"subtask \d+"):
            assign(tasks, pool)
        return
    runs = assign(tasks, pool)
    assert [at for run in runs for at in run] == list(range(len(tasks)))
    cost = 0.0
    for run, node in zip(runs, nodes, strict=True):
        held = sum(tasks[at].memory_bytes for at in run)
        assert node.memory_bytes is None or held <= node.memory_bytes
        cost += len(run) ** 2 / node.flops_per_s
    assert cost == pytest.approx(best, rel=1e-12)


@given(subtasks(30), pools(), st.data())
def test_what_was_a_leaving_nodes_goes_to_the_others(
    tasks: tuple[Subtask, ...], pool: Pool, data: st.DataObject
) -> None:
    numbers = st.integers(0, len(pool.nodes) - 1)
    left = data.draw(st.sets(numbers, max_size=len(pool.nodes) - 1))
    runs = assign(tasks, pool, left)
    assert [at for run in runs for at in run] == list(range(len(tasks)))
    assert not any(runs[node] for node in left)
    others = tuple(node for at, node in enumerate(pool.nodes) if at not in left)
    assert [run for at, run in enumerate(runs) if at not in left] == list(
        assign(tasks, replace(pool, nodes=others))
    )


def test_refusals() -> None:
    pool = Pool((Node(1.0, 10), Node(1.0, 20)))
    big = (*some(2), Subtask(("convolution", "relu"), 1.0, 4, 21))
    with pytest.raises(AssignmentError, match=r"subtask 2 \(convolution, relu\) needs 21 bytes"):
        assign(big, pool)
    with pytest.raises(AssignmentError, match=r"need 40 bytes.*2 nodes: subtask 3 has no place"):
        assign(some(4, 10), pool)
    with pytest.raises(AssignmentError, match=r"node 0 would hold 20 bytes in 2 batches"):
        assign_batches(some(4, 10), pool)
    with pytest.raises(ValueError, match="no node is left"):
        assign(some(4), pool, {0, 1})
    with pytest.raises(ValueError, match="flops_per_s"):
        Node(0.0)
