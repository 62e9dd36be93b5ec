"""Server and nodes take what is predicted, count what they do, and lose nothing with a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.olpb.algorithms.networks import example
from tests.olpb.strategies import pools, subtasks
from tests.oracles import olpb_batches
from tests.oracles import olpb_nodes as oracle
from tests.oracles.olpb_scan import autograd_gradients as by_autograd
from workbench.olpb.algorithms.assignment import assign, assign_batches
from workbench.olpb.algorithms.jacobians import Element, GroupPass, group_passes, size_bytes
from workbench.olpb.algorithms.levels import groups
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.schedules import Schedule, batched, schedule
from workbench.olpb.algorithms.schedules import run as scan_alone
from workbench.olpb.algorithms.tape import record
from workbench.olpb.costs.backward import LOSS, as_paper_counts
from workbench.olpb.costs.subtasks import Node, Pool, Subtask
from workbench.olpb.costs.timing import Work
from workbench.olpb.costs.traced import subtasks_of
from workbench.olpb.programs.cluster import Delays, cluster_of
from workbench.olpb.programs.node import Order, carry_out
from workbench.olpb.programs.scan import BackwardPasses, Counts, Forward, Learner
from workbench.runtime import Crash, Fault, ProgramError, Restart, Run, simulate

algorithms = st.sampled_from(sorted(SCANS))
FEW = Pool(tuple(Node(2.0) for _ in range(4)), 0.1, 0.5)


def some(count: int) -> tuple[Subtask, ...]:
    return (LOSS, *(Subtask((f"group {at}",), float(at % 5), 8, 0) for at in range(count)))


def idle(count: int) -> tuple[Subtask, ...]:
    return (LOSS, *(Subtask((), 0.0, 8, 0) for _ in range(count)))


def run(
    tasks: tuple[Subtask, ...],
    pool: Pool,
    iterations: int = 1,
    faults: tuple[Fault, ...] = (),
    seed: int = 0,
    **options: Any,
) -> Run:
    programs = BackwardPasses(tasks, pool, iterations, **options).programs
    return simulate(cluster_of(pool), programs, faults=faults, seed=seed)


def passes(found: Run) -> list[Counts]:
    counts: list[Counts] = found.results[max(found.results)]
    return counts


class Hearing(Learner):
    """Keeps what the server tells it."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self, iteration: int) -> Forward:
        self.heard.append(f"begin {iteration}")
        return Forward()

    def end(self, iteration: int, gradients: Mapping[str, Tensor]) -> None:
        self.heard.append("end")


class Computing(Learner):
    """Gives nodes groups to compute with, and keeps the gradients that they find."""

    def __init__(self, groups: Sequence[GroupPass]) -> None:
        self.groups, self.gradients = groups, dict[str, Tensor]()

    def begin(self, iteration: int) -> Forward:
        return Forward(groups=self.groups)

    def end(self, iteration: int, gradients: Mapping[str, Tensor]) -> None:
        self.gradients = dict(gradients)


def drawn(planned: Schedule) -> Work:
    """Costs and bytes that differ from value to value, and work after the scan."""
    costs = [1.0 + move.result % 13 for move in planned.moves]
    sizes = [1.0 + value % 7 for value in range(len(planned.homes))]
    return Work(costs, sizes, [3.0 * (element % 4) for element in range(planned.elements)])


@given(subtasks(), pools(bandwidths=True), algorithms, st.booleans(), st.booleans())
def test_takes_what_is_predicted_by_any_counting(
    tasks: tuple[Subtask, ...], pool: Pool, scan: str, in_batches: bool, as_paper: bool
) -> None:
    costs: Any = drawn
    if as_paper:
        costs = partial(as_paper_counts, elements=tasks, local_first=in_batches)
    (found,) = passes(run(tasks, pool, scan=scan, in_batches=in_batches, costs=costs))
    deal, planned = (assign_batches, batched) if in_batches else (assign, schedule)
    plan = planned(scan, len(tasks), deal(tasks, pool), exclusive=True)
    expected_s = oracle.scan_s(plan, costs(plan), pool)
    assert found.backward_s == pytest.approx(expected_s, rel=1e-9, abs=1e-12)
    assert (found.plan, found.attempts, found.dealt) == (plan, 1, deal(tasks, pool))


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=30),
    st.integers(1, 9),
    st.floats(0, 9),
    st.floats(0, 20),
)
def test_nodes_take_what_an_event_loop_takes_in_batches(
    costs: list[float], nodes: int, dispatch_s: float, delay_s: float
) -> None:
    pool = Pool((Node(1.0),) * nodes, dispatch_s, delay_s)
    groups = [Subtask((), flops, 8, 0) for flops in costs]
    plan = batched("hillis_steele", len(groups), nodes)
    order = Order(1, plan, as_paper_counts(plan, groups, local_first=True))
    program = partial(carry_out, order=order, pool=pool, send=Delays(pool).send)
    took_s = simulate(cluster_of(pool), dict.fromkeys(range(nodes), program)).end_s
    wanted_s = olpb_batches.hillis_steele(costs, nodes, dispatch_s, delay_s).at_s
    assert took_s == pytest.approx(wanted_s, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("in_batches", [False, True])
@pytest.mark.parametrize("scan", sorted(SCANS))
@pytest.mark.parametrize("network", ["residual", "tied"])
def test_products_of_jacobians_travel_with_their_bytes_and_give_the_gradients(
    network: str, scan: str, in_batches: bool
) -> None:
    module, x, y = example(network)
    tape = record(module, x, y)
    parts = groups(tape.flow, "operator", 2)
    learner, tasks = Computing(group_passes(tape, parts)), subtasks_of(tape, parts)
    options: dict[str, Any] = {"scan": scan, "in_batches": in_batches, "costs": drawn}
    found = run(tasks, FEW, learner=learner, **options)
    assert found.end_s == run(tasks, FEW, **options).end_s
    wanted, _ = by_autograd(module, x, y, None)
    assert learner.gradients.keys() == wanted.keys()
    largest = max(float(one.abs().max()) for one in wanted.values())
    for name, one in wanted.items():
        torch.testing.assert_close(learner.gradients[name], one, rtol=0, atol=1e-12 * largest)
    planned = batched if in_batches else schedule
    plan = planned(scan, len(tasks), passes(found)[0].dealt, exclusive=True)
    elements: list[Element] = [np.ones(1), *(group.jacobian() for group in learner.groups)]
    scanned = scan_alone(
        plan, elements, lambda one, two: two @ one, np.ones(0), size_bytes=size_bytes
    )
    assert sum(link.bytes for link in found.links) == scanned.bytes_sent > 0
    del options["costs"]
    as_paper = run(tasks, FEW, learner=learner, **options)
    assert sum(link.bytes for link in as_paper.links) == 0


@pytest.mark.parametrize("scan", sorted(SCANS))
@pytest.mark.parametrize(("elements", "nodes"), [(8, 8), (32, 8), (64, 16)])
def test_steps_and_work_as_they_run_are_those_of_the_schedule(
    scan: str, elements: int, nodes: int
) -> None:
    # A step takes a second, and nothing else does.
    pool = Pool(tuple(Node(1.0) for _ in range(nodes)), dispatch_s=1.0)
    programs = BackwardPasses(idle(elements - 1), pool, scan=scan).programs
    found = simulate(cluster_of(pool), programs, trace=True)
    (counts,) = passes(found)
    assert counts.backward_s == counts.plan.steps
    assert found.trace is not None
    assert len(found.trace.frame.filter(lane="scan")) == counts.plan.work


def test_a_pass_begins_when_the_one_before_is_done() -> None:
    first, second = passes(run(some(12), FEW, 2, forward_s=3.0))
    assert first.begin_s == 3.0
    assert second.begin_s == pytest.approx(6.0 + first.backward_s, rel=1e-12)
    assert second.backward_s == pytest.approx(first.backward_s, rel=1e-12)


@given(st.data())
def test_nothing_is_lost_when_nodes_leave_and_come_back(data: st.DataObject) -> None:
    tasks, pool = some(data.draw(st.integers(1, 12))), data.draw(pools(5))
    iterations, seed = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 9))
    staying = data.draw(st.integers(0, len(pool.nodes) - 1))
    random = data.draw(st.booleans())
    options: dict[str, Any] = {"scan": data.draw(algorithms), "random_delays": random}
    options["in_batches"] = data.draw(st.booleans())
    learner, faults = Hearing(), list[Fault]()
    plain = run(tasks, pool, iterations, seed=seed, **options)
    for node in range(len(pool.nodes)):
        if node != staying and data.draw(st.booleans()):
            at_s = data.draw(st.floats(0, plain.end_s or 1.0))
            faults.append(Crash(node, at_s))
            if data.draw(st.booleans()):
                faults.append(Restart(node, at_s + data.draw(st.floats(0, 20))))
    found = run(tasks, pool, iterations, tuple(faults), seed, learner=learner, **options)
    assert found.ended == "done"
    # A node asserts that it combines neighbours, and that a group has all that precedes it.
    assert learner.heard == [
        told for iteration in range(iterations) for told in (f"begin {iteration}", "end")
    ]
    for one in passes(found):
        assert sorted(at for own in one.dealt for at in own) == list(range(len(tasks)))
    if not faults:
        assert found.results == plain.results


def test_a_node_that_leaves_has_its_subtasks_given_to_another() -> None:
    found = passes(run(some(12), FEW, 8, (Crash("node1", 2.0), Restart("node1", 40.0))))
    assert [one.attempts for one in found] == [2, *[1] * 7]
    assert [len(run) for run in found[0].dealt] == [5, 0, 4, 4]
    assert found[0].backward_s > found[1].backward_s
    back = next(one for one in found if one.begin_s > 40.0)
    assert [len(run) for run in back.dealt] == [4, 3, 3, 3]


def test_all_nodes_leave() -> None:
    faults = tuple(Crash(node, 1.0) for node in range(4))
    with pytest.raises(ProgramError, match="no node is left"):
        run(some(12), FEW, faults=faults)


def test_random_delays_are_exponential_and_repeatable() -> None:
    pool = Pool((Node(1e9), Node(1e9)), 0.0, 2.0)
    tasks = some(1)  # the loss's gradient goes to the group's node, and nothing else
    took_s = [one.backward_s for one in passes(run(tasks, pool, 4000, random_delays=True))]
    assert np.mean(took_s) == pytest.approx(2.0, rel=5 / np.sqrt(4000))
    assert np.mean(np.array(took_s) > 2.0) == pytest.approx(np.exp(-1), abs=0.04)
    again = [one.backward_s for one in passes(run(tasks, pool, 50, random_delays=True))]
    assert again == took_s[:50]
    other = passes(run(tasks, pool, 50, random_delays=True, seed=1))
    assert [one.backward_s for one in other] != again
