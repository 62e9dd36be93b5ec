"""A recurrent chain's time in closed form is its longest path, and the scan's own counts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import olpb_costs as oracle
from workbench.olpb.algorithms.schedules import schedule
from workbench.olpb.costs.recurrent import (
    COUNTINGS,
    Chain,
    chain_scan_s,
    chain_work,
    nodes_to_pay,
)
from workbench.olpb.costs.subtasks import Node, Pool


@given(
    chain=st.builds(Chain, st.integers(1, 60), st.integers(1, 9), st.integers(1, 3)),
    nodes=st.integers(1, 70),
    dispatch_and_delay_s=st.sampled_from(((0.0, 0.0), (0.1, 0.3), (1.0, 0.0), (0.0, 2.0))),
    bandwidth_bps=st.sampled_from((None, 1e4)),
    counting=st.sampled_from(COUNTINGS),
)
def test_closed_form_is_the_longest_path(
    chain: Chain,
    nodes: int,
    dispatch_and_delay_s: tuple[float, float],
    bandwidth_bps: float | None,
    counting: str,
) -> None:
    pool = Pool((Node(1e3, None, bandwidth_bps),) * nodes, *dispatch_and_delay_s)
    planned = schedule("hillis_steele", chain.steps + 1, nodes, exclusive=True)
    wanted = oracle.scan_s(planned, chain_work(planned, chain, counting), pool)
    assert chain_scan_s(chain, pool, counting) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


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


@pytest.mark.parametrize("hidden", [4, 10, 20])
def test_it_pays_from_a_node_for_each_unit(hidden: int) -> None:
    # Every step of a run costs H of a product of matrices and one of its own: b > H + 1, and the
    # steps between runs add the more the shorter the runs.
    found = nodes_to_pay(Chain(30_000, hidden), Pool((Node(1e9),)))
    assert found is not None
    assert hidden + 1 <= found <= hidden + 3


def test_dispatches_make_it_pay_sooner_and_delays_later() -> None:
    chain = Chain(1000, 20)
    assert nodes_to_pay(chain, Pool((Node(1e9),), dispatch_s=1.0)) in (2, 3)
    late = nodes_to_pay(chain, Pool((Node(1e9),), delay_s=1.0))
    assert late is None


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="steps"):
        Chain(0, 3)
    with pytest.raises(ValueError, match="counting"):
        chain_scan_s(Chain(3, 3), Pool((Node(1.0),)), "both")
    with pytest.raises(ValueError, match="4 elements"):
        chain_work(schedule("blelloch", 3), Chain(3, 3))
