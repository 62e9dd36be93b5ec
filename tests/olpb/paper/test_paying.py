"""A recurrent chain's products cost what they do, and a scan pays from a node for each unit."""

import polars as pl
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from workbench.olpb.algorithms.schedules import schedule
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.costs.timing import scan_timing
from workbench.olpb.paper import paying
from workbench.olpb.paper.paying import chain_work, step_flops


def test_products_of_a_scan_cost_what_matrix_products_do() -> None:
    matrices, vectors = torch.zeros(3, 4, 4), torch.zeros(3, 4, 1)
    planned = schedule("hillis_steele", 6, exclusive=True)
    work = chain_work(planned, hidden=4, batch_size=3)
    for operand, is_gradient in ((matrices, False), (vectors, True)):
        with FlopCounterMode(display=False) as counter:
            matrices @ operand
        flops, sent = counter.get_total_flops(), operand.double().nbytes
        for move, found in zip(planned.moves, work.move_flops, strict=True):
            if (planned.spans[move.left].start == 0) == is_gradient:
                assert found == flops
        assert work.value_bytes is not None
        for value, span in planned.spans.items():
            if (span.start == 0) == is_gradient:
                assert work.value_bytes[value] == sent


def speedup(steps: int, hidden: int, nodes: int, **about: float) -> float:
    pool = Pool((Node(1e9),) * nodes, **about)
    planned = schedule("hillis_steele", steps + 1, nodes, exclusive=True)
    sequential_s = steps * (step_flops(hidden, 1) / 1e9 + pool.dispatch_s)
    return sequential_s / scan_timing(planned, chain_work(planned, hidden), pool).seconds


@pytest.mark.parametrize("hidden", [4, 10])
def test_a_scan_pays_from_a_node_for_each_unit(hidden: int) -> None:
    # Every step of a run costs H of a product of matrices and one of its own: b > H + 1, and the
    # steps between runs add the more the shorter the runs.
    assert speedup(6000, hidden, hidden) < 1 < speedup(6000, hidden, hidden + 3)


def test_dispatches_make_it_pay_sooner_and_delays_later() -> None:
    assert speedup(1000, 20, 3, dispatch_s=1.0) > 1
    assert all(speedup(1000, 20, nodes, delay_s=1.0) < 1 for nodes in (32, 256))


def test_by_the_papers_counting_nothing_is_computed_twice() -> None:
    frame = paying.PAYS.frame("smoke").filter(counting="paper", network="lenet5")
    assert frame["work_ratio"].to_list() == pytest.approx([1.0] * len(frame))


def test_the_scan_pays_by_arithmetic_for_chains_alone() -> None:
    frame = paying.PAYS.frame("smoke")
    found = paying.first_paying(frame).filter(counting="arithmetic")
    pays = found.filter(pl.col("bare_nodes").is_not_null())
    assert set(pays["network"]) == {"rnn"}
    # A run costs H + 1 products with a gradient for each step: of the nodes asked for, 32.
    assert pays["bare_nodes"].to_list() == [32]
    assert pays["nodes"].item() < 32  # one node has to dispatch every step, too
    cnn = frame.filter(network="lenet5", counting="arithmetic")
    assert cnn["work_ratio"].min() > 10  # type: ignore[operator]
