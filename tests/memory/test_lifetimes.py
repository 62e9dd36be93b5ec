"""Lifetimes and orders against plain loops and all orders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.flows import chain, flows
from tests.oracles import memory as oracle
from workbench.memory.dataflow import Dataflow, check_order
from workbench.memory.lifetimes import lifetimes
from workbench.memory.orders import ORDERS


@given(flows(), st.booleans())
def test_bytes_alive_are_those_of_plain_loops(flow: Dataflow, overwriting: bool) -> None:
    order = list(range(len(flow.steps)))
    life = lifetimes(flow, order, overwriting=overwriting)
    assert life.alive_bytes.tolist() == oracle.alive(flow, order, overwriting=overwriting)
    items = life.items
    assert items["upper"].ge(items["lower"]).all()


@given(flows())
@pytest.mark.parametrize("name", ORDERS)
def test_every_order_can_run(name: str, flow: Dataflow) -> None:
    check_order(flow, ORDERS[name](flow))


@given(flows(most=6))
@pytest.mark.parametrize("name", ORDERS)
def test_no_order_is_better_than_the_best_of_all(name: str, flow: Dataflow) -> None:
    found = lifetimes(flow, ORDERS[name](flow)).bound_bytes
    assert found >= oracle.least_bound(flow)


@pytest.mark.parametrize(
    ("order", "why"), [([0, 1], "each of the 3 steps once"), ([1, 0, 2], "step 1 before step 0")]
)
def test_orders_that_cannot_run_are_refused(order: list[int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_order(chain(1, 1, 1), order)
