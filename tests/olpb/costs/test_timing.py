"""A scan's time is that of plain loops, whatever the nodes, delays and what moves cost."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.olpb.strategies import pools
from tests.oracles import olpb_nodes as oracle
from workbench.olpb.algorithms.schedules import ALGORITHMS, schedule
from workbench.olpb.costs.backward import (
    MOVES,
    Group,
    as_paper_counts,
    decoupled_s,
    plan,
)
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.costs.timing import Work, scan_timing

amounts = st.floats(0, 100)


@given(
    scan=st.sampled_from(list(ALGORITHMS)),
    elements=st.integers(1, 23),
    pool=pools(bandwidths=True),
    exclusive=st.booleans(),
    data=st.data(),
)
def test_time_is_the_longest_path(
    scan: str, elements: int, pool: Pool, exclusive: bool, data: st.DataObject
) -> None:
    planned = schedule(scan, elements, len(pool.nodes), exclusive=exclusive)

    def drawn(count: int) -> list[float]:
        return data.draw(st.lists(amounts, min_size=count, max_size=count))

    work = Work(drawn(planned.work), drawn(len(planned.homes)), drawn(elements))
    found = scan_timing(planned, work, pool)
    assert found.seconds == pytest.approx(oracle.scan_s(planned, work, pool), rel=1e-9, abs=1e-9)
    assert max(found.busy_s) <= found.seconds + 1e-9
    assert scan_timing(planned, work, pool, in_step=True).seconds >= found.seconds - 1e-9


@given(
    moves=st.sampled_from(MOVES),
    flops=st.lists(st.tuples(amounts, st.floats(0, 1)), max_size=20),
    nodes=st.integers(1, 9),
    scan=st.sampled_from(list(ALGORITHMS)),
)
def test_moves_cost_what_the_paper_counts(
    moves: str, flops: list[tuple[float, float]], nodes: int, scan: str
) -> None:
    groups = [Group((), 0.0, 0, 0), *(Group((), one, 0, 0, one * part) for one, part in flops)]
    planned = schedule(scan, len(groups), nodes, exclusive=True)
    found = as_paper_counts(planned, groups, moves)
    backward, learning = (
        [getattr(one, f"{of}_flops") for one in groups] for of in ("backward", "parameter")
    )
    move_flops, after_flops = oracle.as_paper_counts(planned, backward, learning, moves)
    assert found.move_flops == pytest.approx(move_flops, abs=1e-6)
    assert found.after_flops == pytest.approx(after_flops, abs=1e-6)
    assert not any(found.value_bytes)


def groups_of(*flops: float) -> tuple[Group, ...]:
    return (Group((), 0.0, 0, 0), *(Group((), one, 8, 0) for one in flops))


def test_random_delays_are_drawn_alike_and_have_the_mean() -> None:
    pool = Pool((Node(1.0), Node(1.0)), 0.0, 3.0)
    planned = plan(2, 2, "hillis_steele")
    work = as_paper_counts(planned, groups_of(1.0), "once")
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
