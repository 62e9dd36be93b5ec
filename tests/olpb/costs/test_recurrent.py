"""A recurrent chain's products cost what they do, and a scan pays from a node for each unit."""

import pytest
import torch

from workbench.olpb.algorithms.schedules import schedule
from workbench.olpb.costs.recurrent import Chain, chain_work
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.costs.timing import scan_timing


def test_products_of_a_scan_cost_what_matrix_products_do() -> None:
    chain = Chain(steps=5, hidden=4, batch_size=3)
    matrices, vectors = torch.zeros(3, 4, 4), torch.zeros(3, 4, 1)
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        matrices @ matrices
    assert counter.get_total_flops() == chain.matrix_flops
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        matrices @ vectors
    assert counter.get_total_flops() == chain.vector_flops
    assert chain.matrix_bytes == matrices.double().nbytes
    assert chain.gradient_bytes == vectors.double().nbytes


def speedup(chain: Chain, nodes: int, **about: float) -> float:
    pool = Pool((Node(1e9),) * nodes, **about)
    planned = schedule("hillis_steele", chain.steps + 1, nodes, exclusive=True)
    sequential_s = chain.steps * (chain.vector_flops / 1e9 + pool.dispatch_s)
    return sequential_s / scan_timing(planned, chain_work(planned, chain), pool).seconds


@pytest.mark.parametrize("hidden", [4, 10])
def test_a_scan_pays_from_a_node_for_each_unit(hidden: int) -> None:
    # Every step of a run costs H of a product of matrices and one of its own: b > H + 1, and the
    # steps between runs add the more the shorter the runs.
    chain = Chain(6000, hidden)
    assert speedup(chain, hidden) < 1 < speedup(chain, hidden + 3)


def test_dispatches_make_it_pay_sooner_and_delays_later() -> None:
    chain = Chain(1000, 20)
    assert speedup(chain, 3, dispatch_s=1.0) > 1
    assert all(speedup(chain, nodes, delay_s=1.0) < 1 for nodes in (32, 256))
