"""A scan's time is that of plain loops, whatever the nodes, delays and what moves cost."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.olpb.strategies import pools
from tests.oracles import olpb_batches
from tests.oracles import olpb_nodes as oracle
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.schedules import Schedule, batched, schedule
from workbench.olpb.costs.backward import (
    as_paper_counts,
    decoupled_s,
    plan,
    plan_batches,
)
from workbench.olpb.costs.stored_passes import stored_groups
from workbench.olpb.costs.subtasks import Node, Pool, Subtask
from workbench.olpb.costs.timing import Work, scan_timing

amounts = st.floats(0, 100)


@given(
    scan=st.sampled_from(list(SCANS)),
    way=st.sampled_from([schedule, batched]),
    elements=st.integers(1, 23),
    pool=pools(bandwidths=True),
    data=st.data(),
)
def test_time_is_the_longest_path(
    scan: str,
    way: Callable[..., Schedule],
    elements: int,
    pool: Pool,
    data: st.DataObject,
) -> None:
    planned = way(scan, elements, len(pool.nodes), exclusive=data.draw(st.booleans()))

    def drawn(count: int) -> list[float]:
        return data.draw(st.lists(amounts, min_size=count, max_size=count))

    made = drawn(elements) if data.draw(st.booleans()) else None
    work = Work(drawn(planned.work), drawn(len(planned.homes)), drawn(elements), made)
    found = scan_timing(planned, work, pool)
    assert found.seconds == pytest.approx(oracle.scan_s(planned, work, pool), rel=1e-9, abs=1e-9)


@given(
    st.lists(amounts, min_size=1, max_size=40),
    st.integers(1, 17),
    st.floats(0, 9),
    st.floats(0, 20),
)
def test_batches_take_what_an_event_loop_takes(
    costs: list[float], nodes: int, dispatch_s: float, delay_s: float
) -> None:
    pool = Pool((Node(1.0),) * nodes, dispatch_s, delay_s)
    assert batches_s(groups_of(*costs)[1:], pool) == pytest.approx(
        olpb_batches.hillis_steele(costs, nodes, dispatch_s, delay_s).at_s, rel=1e-9, abs=1e-9
    )


@given(
    st.sampled_from(["lenet5", "cifarnet", "squeezenet_cifar"]),
    st.integers(1, 5),
    st.integers(1, 40),
)
@settings(max_examples=15)
def test_batches_of_any_levels_take_what_an_event_loop_takes(
    model: str, levels: int, nodes: int
) -> None:
    groups = stored_groups(model, levels=levels, operator_flops=3e6)[1:]
    pool = Pool((Node(1e9),) * nodes, 1e-3, 0.02)
    costs = [group.backward_flops / 1e9 for group in groups]
    wanted = olpb_batches.hillis_steele(costs, nodes, 1e-3, 0.02).at_s
    assert batches_s(groups, pool) == pytest.approx(wanted, rel=1e-9)


def batches_s(groups: Sequence[Subtask], pool: Pool) -> float:
    planned = plan_batches(len(groups), len(pool.nodes), "hillis_steele")
    return scan_timing(planned, as_paper_counts(planned, groups, local_first=True), pool).seconds


def test_gradients_are_paid_before_the_scan_or_when_it_has_come() -> None:
    pool, planned = Pool((Node(1.0),) * 4, 0.5, 2.0), plan_batches(4, 4, "hillis_steele")

    def seconds(*costs: float, local_first: bool) -> float:
        work = as_paper_counts(planned, groups_of(*costs)[1:], local_first=local_first)
        return scan_timing(planned, work, pool).seconds

    assert seconds(4, 4, 4, 4, local_first=True) == 4 + 2 * (2 + 0.5)
    assert seconds(4, 4, 4, 4, local_first=False) == 2 * (2 + 0.5) + 4
    # The second node computes longest: others wait for it only where it computes first.
    assert seconds(4, 8, 4, 4, local_first=True) == 8 + 0.5 + 2 + 0.5
    assert seconds(4, 8, 4, 4, local_first=False) == 2 + 0.5 + 8


def groups_of(*flops: float) -> tuple[Subtask, ...]:
    return (Subtask((), 0.0, 0, 0), *(Subtask((), one, 8, 0) for one in flops))


def test_random_delays_are_drawn_alike_and_have_the_mean() -> None:
    pool = Pool((Node(1.0), Node(1.0)), 0.0, 3.0)
    planned = plan(2, 2, "hillis_steele")
    work = as_paper_counts(planned, groups_of(1.0))
    drawn = partial(scan_timing, planned, work, random=True, draws=4000)
    one = drawn(pool)
    assert one == drawn(pool)
    assert one.each_s != drawn(pool, seed=1).each_s
    # A single message: its mean is 3, its deviation 3, of 4,000 draws 0.05.
    assert one.seconds == pytest.approx(1 + 3, abs=5 * 3 / np.sqrt(4000))
    assert drawn(replace(pool, delay_s=0.0)).each_s == (1.0,)


@given(costs=st.lists(st.floats(0.01, 100), min_size=4, max_size=12), modules=st.integers(1, 4))
def test_modules_are_cut_as_evenly_as_can_be(costs: list[float], modules: int) -> None:
    pool = Pool((Node(2.0),) * 4, 9.0)
    wanted = oracle.dearest(costs, modules) / 2
    assert decoupled_s(groups_of(*costs), pool, modules) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("costs", "wanted"), [((1, 8), 4.0), ((8, 1), 4.5), ((2, 8, 2), 4.5), ((8,), 4.0)]
)
def test_the_module_next_to_the_input_sends_no_gradient(
    costs: tuple[float, ...], wanted: float
) -> None:
    pool = Pool((Node(2.0),) * 4, 9.0, 0.5)
    assert decoupled_s(groups_of(*costs), pool, len(costs)) == wanted
